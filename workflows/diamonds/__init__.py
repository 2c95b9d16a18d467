"""A diamond and its splits as workflows."""
