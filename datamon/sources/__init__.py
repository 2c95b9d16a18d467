"""Where files come from: a folder or a file of this machine, or a prefix of an S3 bucket."""

from __future__ import annotations

import os
import re

from datamon.errors import UnfitFile
from datamon.sources.tree import Found, OnUnfit, Skips, Source, Tree, is_remote, is_within, name_pattern, sorted_names
from datamon.stores import Context

__all__ = [
    "Found",
    "OnUnfit",
    "Skips",
    "Source",
    "Tree",
    "check_allowed",
    "is_remote",
    "name_pattern",
    "open_tree",
    "sorted_names",
]


def check_allowed(source: Source, folders: str) -> None:
    """UnfitFile for a source that a worker does not upload from. `folders` has `:` between them; none means all."""
    if not folders:
        return
    if is_remote(source.path):
        allowed = any(is_remote(one) and source.path.startswith(one.rstrip("/") + "/") for one in _listed(folders))
    else:
        real = os.path.realpath(source.path)
        allowed = any(is_within(os.path.realpath(one), real) for one in _listed(folders) if not is_remote(one))
    if not allowed:
        raise UnfitFile(source.path, f"the worker uploads only from {folders}")


def _listed(folders: str) -> list[str]:
    return [one for one in re.split(r":(?!//)", folders) if one]


def open_tree(source: Source, context: Context | None = None) -> Tree:
    """The files of a source. A source with a list of names needs the context that the list lies in."""
    lists = context.vmetadata if context is not None else None
    if is_remote(source.path):
        from datamon.sources.s3 import S3Tree

        return S3Tree(source, lists)
    from datamon.sources.local import LocalTree

    return LocalTree(source, lists)
