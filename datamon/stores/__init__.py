"""Where objects are kept: the ObjectStore protocol, directories, S3, keys, and descriptors as YAML.

Imports only `datamon.core`. `keys` is the only module that spells a key.
"""
