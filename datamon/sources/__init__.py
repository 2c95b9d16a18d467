"""Where files come from: a folder or a file of this machine, or a prefix of an S3 bucket."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from datamon.errors import UnfitFile
from datamon.sources.tree import Found, OnUnfit, Skips, Source, Tree, is_remote, is_within, name_pattern, sorted_names
from datamon.stores import Context

__all__ = [
    "Found",
    "OnUnfit",
    "Skips",
    "Source",
    "Tree",
    "allowed",
    "is_remote",
    "name_pattern",
    "open_tree",
    "sorted_names",
]


def allowed(source: Source, folders: str) -> Source:
    """The source, or UnfitFile if a worker does not upload from there. `folders` has `:` between; none means all."""
    if not folders:
        return source
    if is_remote(source.path):
        tops = [one.rstrip("/") for one in _listed(folders) if is_remote(one)]
        found = source
    else:
        tops = [os.path.realpath(one) for one in _listed(folders) if not is_remote(one)]
        is_folder = os.path.isdir(source.path)  # the name of a single file is that of the link to it
        found = replace(source, path=os.path.realpath(source.path), real=True) if is_folder else source
    at = found.path.rstrip("/") if is_remote(found.path) else os.path.realpath(found.path)
    if ".." in at.split("/") or not any(is_within(top, at) for top in tops):
        raise UnfitFile(source.path, f"the worker uploads only from {folders}")
    return found


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
