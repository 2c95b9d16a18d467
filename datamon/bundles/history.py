"""The history of a bundle: parents, generations, and jumps to far ancestors.

A bundle with one parent may *jump* to an ancestor further back, never across a bundle with several parents. Where
jumps lead follows the skew-binary numbers (Myers, 1983): the jump of a child is that of its parent's jump if both
jumps of the parent are equally long, else it is the parent itself. So of a line of n bundles any one is reached in
about 2 log n steps.

    generation   1   2   3   4   5   6   7   8
    jumps to     -   1   2   1   4   5   4   1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from datamon.bundles.model import Bundle, Jump
from datamon.core.errors import CorruptObject
from datamon.core.ids import BundleId

ReadBundle = Callable[[BundleId], Bundle]


def descend(parents: list[Bundle], read: ReadBundle) -> tuple[int, Jump | None]:
    """The generation and the jump of a bundle with these parents."""
    if not parents:
        return 1, None
    generation = 1 + max(parent.generation for parent in parents)
    if len(parents) > 1:
        return generation, None
    [parent] = parents
    near = parent.jump
    if near is None:
        return generation, Jump(parent.id, parent.generation)
    far = read(near.bundle).jump or near
    if parent.generation - near.generation == near.generation - far.generation:
        return generation, far
    return generation, Jump(parent.id, parent.generation)


def is_ancestor(ancestor: Bundle, bundle: Bundle, read: ReadBundle) -> bool:
    """Whether a bundle comes from another one, or is that one."""
    waiting, seen = [bundle], {bundle.id}
    while waiting:
        current = waiting.pop()
        if current.id == ancestor.id:
            return True
        for following in _towards(current, ancestor.generation):
            if following not in seen:
                seen.add(following)
                waiting.append(_earlier(current, read(following)))
    return False


def _towards(bundle: Bundle, generation: int) -> list[BundleId]:
    """Where to go on from a bundle, as far as possible, without passing a generation."""
    if bundle.generation <= generation:
        return []
    if bundle.jump is not None and bundle.jump.generation >= generation:
        return [bundle.jump.bundle]
    return bundle.parents


def _earlier(bundle: Bundle, ancestor: Bundle, generation: int | None = None) -> Bundle:
    """An ancestor that was read; it has a lower generation, or whoever goes back might never come to an end."""
    if ancestor.generation >= bundle.generation or generation not in (None, ancestor.generation):
        raise CorruptObject(f"bundle {bundle.id}", f"its ancestor {ancestor.id} has generation {ancestor.generation}")
    return ancestor


def first_parents(bundle: Bundle, read: ReadBundle) -> Iterator[Bundle]:
    """A bundle, its first parent, the first parent of that, and so on."""
    yield bundle
    while bundle.parents:
        bundle = _earlier(bundle, read(bundle.parents[0]))
        yield bundle


def nth_ancestor(bundle: Bundle, steps: int, read: ReadBundle) -> Bundle | None:
    """The bundle so many first parents back; None where there are fewer."""
    while steps > 0:
        if bundle.jump is not None and bundle.generation - bundle.jump.generation <= steps:
            steps -= bundle.generation - bundle.jump.generation  # a jump passes only bundles with one parent
            bundle = _earlier(bundle, read(bundle.jump.bundle), bundle.jump.generation)
        elif bundle.parents:
            steps -= 1
            bundle = _earlier(bundle, read(bundle.parents[0]))
        else:
            return None
    return bundle
