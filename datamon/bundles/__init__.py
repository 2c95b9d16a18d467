"""Bundles: what they are, finding them, their history, how they differ, and reading and downloading them.

Imports `datamon.core`, `datamon.stores`, `datamon.content`, `datamon.lists` and `datamon.merge`.
"""
