"""Configuration: what can be set, where values come from, and what runs on this machine.

Imports `datamon.core` and `datamon.stores`.
"""
