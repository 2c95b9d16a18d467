"""The way in: a typed async client, and the command `datamon` on top of it."""
