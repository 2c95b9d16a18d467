"""Diamonds and splits as they are published: making, committing, previewing, reporting on and removing them.

Imports every package of datamon above it but not `branches`, `flows` or `transfer`, which do not import it either.
"""
