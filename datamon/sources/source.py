"""What to upload: one type from the command to the task."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from datamon.core.errors import BadUsage, Remedy, UnfitFile
from datamon.core.names import is_below, is_within, name_problem, sort_key
from datamon.core.text import quoted


class Links(StrEnum):
    """What becomes of symbolic links."""

    FOLLOW = "follow"  # the file that it leads to is uploaded under its name
    KEEP = "keep"  # the link itself is


@dataclass(frozen=True, slots=True)
class Source:
    """What to upload, and what of it.

    `files` is the key of a list of names in vmetadata, as `sorted_names` writes it. Of a path that is `real`, no part
    may be a link, also not later: it was seen to lie where a worker may upload from. By default, nothing to upload is
    refused if something was selected, for then it is likely to be a slip. `reread` says that every file is read, also
    where the cache of this host knows that it has not changed.
    """

    path: str = ""
    skip_on_error: bool = False
    files: str = ""
    name_filter: str = ""
    include: list[str] = field(default_factory=list)  # globs, of which one must match
    exclude: list[str] = field(default_factory=list)  # globs, of which none may match
    allow_empty: bool | None = None
    real: bool = False
    links: Links = Links.FOLLOW
    empty_folders: bool = False
    reread: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether it can be read from anywhere."""
        return is_s3_url(self.path)

    @property
    def filters(self) -> list[str]:
        """What narrows it down, in words."""
        filters = [f"the name filter {quoted(self.name_filter)}"] if self.name_filter else []
        filters += [f"the globs {', '.join(map(quoted, self.include))}"] if self.include else []
        filters += [f"the globs {', '.join(map(quoted, self.exclude))} to exclude"] if self.exclude else []
        return filters + (["the list of names"] if self.files else [])

    @property
    def may_be_empty(self) -> bool:
        """Whether nothing to upload is fine."""
        return not self.filters if self.allow_empty is None else self.allow_empty


def is_s3_url(path: str) -> bool:
    """Whether a path is in S3."""
    return path.startswith("s3://")


def check_allowed(source: Source, folders: str) -> Source:
    """The source, or UnfitFile if a worker does not upload from there. `folders` has `:` between; none means all."""
    if not folders:
        return source
    if source.is_remote:
        tops = [one.rstrip("/") for one in _listed(folders) if is_s3_url(one)]
        resolved = source
    else:
        tops = [os.path.realpath(one) for one in _listed(folders) if not is_s3_url(one)]
        is_folder = os.path.isdir(source.path)  # the name of a single file is that of the link to it
        resolved = replace(source, path=os.path.realpath(source.path), real=True) if is_folder else source
    at = resolved.path.rstrip("/") if resolved.is_remote else os.path.realpath(resolved.path)
    if ".." in at.split("/") or not any(is_within(top, at) for top in tops):
        raise UnfitFile(source.path, f"the worker uploads only from {folders}")
    return resolved


def _listed(folders: str) -> list[str]:
    return [one for one in re.split(r":(?!//)", folders) if one]


def name_pattern(text: str) -> re.Pattern[str]:
    """A filter of names, to be searched anywhere in them."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        remedy = Remedy.USE_GLOBS if is_like_glob(text) else Remedy.NONE
        raise BadUsage(f"the name filter {text[:100]!r} is not a regular expression: {error}", remedy) from None


def is_like_glob(text: str) -> bool:
    """Whether what is given as a regular expression is likely to be a glob: `*.csv`, `data/*.csv`."""
    return re.search(r"^\*|/\*|\*\*", text) is not None


def sorted_names(text: bytes) -> bytes:
    """A list of names, one a line, as it lies in the store: checked, each once, in name order."""
    names = set()
    for number, line in enumerate(text.split(b"\n"), 1):
        name = os.fsdecode(line.removesuffix(b"\r"))
        problem = name_problem(name)
        if name and problem is not None:
            raise BadUsage(f"line {number} of the list of files is {name!r}, but {problem}")
        names.add(name)
    listed = sorted(names - {""}, key=sort_key)
    for above, name in pairwise(listed):
        if is_below(sort_key(name), sort_key(above)):
            raise BadUsage(
                f"the list of files names both {above!r} and {name!r}, but no file can lie below another one"
            )
    return "".join(f"{name}\n" for name in listed).encode()
