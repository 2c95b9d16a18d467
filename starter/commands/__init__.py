"""The commands, a package for each noun. What it registers is in its `__init__`, which is quick to import."""
