"""The ways in: the typed client, async and blocking, and the command line.

Imports everything else: `worker`, `workflows`, `activities` and `datamon`.
"""
