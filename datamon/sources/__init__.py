"""Where files come from: a folder or a file of this machine, or a prefix of an S3 bucket."""

from __future__ import annotations

from datamon.sources.tree import Found, OnUnfit, Skips, Source, Tree, is_remote, name_pattern, sorted_names
from datamon.stores import Context

__all__ = [
    "Found",
    "OnUnfit",
    "Skips",
    "Source",
    "Tree",
    "is_remote",
    "name_pattern",
    "open_tree",
    "sorted_names",
]


def open_tree(source: Source, context: Context | None = None) -> Tree:
    """The files of a source. A source with a list of names needs the context that the list lies in."""
    lists = context.vmetadata if context is not None else None
    if is_remote(source.path):
        from datamon.sources.s3 import S3Tree

        return S3Tree(source, lists)
    from datamon.sources.local import LocalTree

    return LocalTree(source, lists)
