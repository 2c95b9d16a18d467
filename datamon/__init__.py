"""What datamon knows: names, keys, rules and formats. No Temporal, no Spark session, no command line."""

__version__ = "0.1.0"
