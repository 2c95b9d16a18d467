"""Diamonds and splits as they are published: making, committing, previewing, reporting on and removing them.

Imports `datamon.core`, `datamon.stores`, `datamon.content`, `datamon.lists`, `datamon.merge`, `datamon.bundles` and
`datamon.sources`.
"""
