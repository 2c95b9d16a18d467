"""Merging file lists into those of one bundle: the last step of every way of making a bundle.

Imports `datamon.core`, `datamon.stores`, `datamon.content` and `datamon.lists`.

    inputs  ->  ranges of names, a task each  ->  rules  ->  lists

- `inputs`: what goes in, and its role: base, peer or layer; any of them may hold deletions.
- `rules`: which version of a name wins, and which are conflicts. Plain functions of plain values.
- `ranges`: cutting the work into tasks.
- `changes`: peers and layers of one range, read and cut into strips; `strips`: one of these, settled.
- `overlay`: the base of one range, with the changes laid over it.
- `kernel`: one task's work, and putting the results of all tasks together.
"""
