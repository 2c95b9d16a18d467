"""What every other package may use: ids, names, errors, text, time, states, and work on several threads.

Imports nothing else of datamon.
"""
