"""The process that hosts workflows and activities: Spark, threads, graceful stop; the embedded stack; the connection.

Imports `workflows`, `activities` and `datamon`, nothing of `starter`.
"""
