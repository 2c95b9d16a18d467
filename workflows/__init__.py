"""What datamon decides, and nothing else: states, who is next, what is refused. No I/O, no clock of its own.

Imports the plain values of `datamon` and the contracts of `activities`; no store, Spark or boto3 can be reached from
here. `common` is the kit that every workflow is built from.
"""
