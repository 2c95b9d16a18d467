"""What every source has in common: names in order, a filter, a list of names, and reading that notices a change."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
from blake3 import blake3

from datamon.errors import BadUsage, CorruptObject, DatamonError, SourceMissing
from datamon.names import EVERYTHING, RESERVED, NameRange, flaw, is_below, order
from datamon.stores import ObjectStore


@dataclass(frozen=True, slots=True)
class Source:
    """What to upload. `files` is the key of a list of names in vmetadata, as `sorted_names` writes it.

    Of a path that is `real`, no part may be a link, also not later: it was seen to lie where a worker may upload from.
    """

    path: str
    skip_on_error: bool = False
    files: str = ""
    name_filter: str = ""
    real: bool = False


class Found(msgspec.Struct, frozen=True, gc=False):
    """A file of the source. `tag` is whatever else tells one state of it from another."""

    name: str
    path: str
    size: int
    mode: int
    mtime: int
    tag: str = ""

    @property
    def fingerprint(self) -> int:
        """A number that changes when the file does. Many files' numbers are added up, so any cut gives the same."""
        told = f"{self.name}\0{self.size}\0{self.mtime}\0{self.mode}\0{self.tag}".encode()
        return int.from_bytes(blake3(told).digest(16), "big")


OnUnfit = Callable[[DatamonError], None]


def refuse(error: DatamonError) -> None:
    """What a walk does by default about something it cannot upload."""
    raise error


class Skips:
    """The `on_unfit` that a source asks for: with skip_on_error, count and go on."""

    def __init__(self, source: Source) -> None:
        self._tolerant = source.skip_on_error
        self.count = 0

    def __call__(self, error: DatamonError) -> None:
        """One thing that cannot be uploaded."""
        if not self._tolerant:
            raise error
        self.count += 1


class Tree(ABC):
    """The files of a source."""

    def __init__(self, source: Source, lists: ObjectStore | None) -> None:
        self.source, self._lists = source, lists
        self._filter = name_pattern(source.name_filter).search if source.name_filter else None

    def walk(self, names: NameRange = EVERYTHING, on_unfit: OnUnfit = refuse) -> Iterator[Found]:
        """The files within a range of names, in name order. What cannot be uploaded is `on_unfit`'s to decide.

        The walk goes on if that returns.
        """
        if not self.source.files:
            return self._all(names, on_unfit)
        return self._listed(names, on_unfit)

    @abstractmethod
    def read(self, found: Found, start: int, length: int) -> bytes:
        """A range of a file's bytes, of the very file that was found; SourceChanged where it is no longer that."""

    @abstractmethod
    def reserved(self) -> list[str]:
        """The root folders of datamon's own that are there, and are never uploaded."""

    @abstractmethod
    def _all(self, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        """What `walk` gives where there is no list of names."""

    @abstractmethod
    def _one(self, name: str, on_unfit: OnUnfit) -> Iterator[Found]:
        """The file with this name, or what is in its place told to `on_unfit`. FileNotFoundError if there is none."""

    def _wants(self, name: str) -> bool:
        return self._filter is None or self._filter(name) is not None

    def _listed(self, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        assert self._lists is not None
        try:
            listed = self._lists.get(self.source.files).decode().split("\n")[:-1]
        except UnicodeDecodeError:
            raise CorruptObject(self.source.files, "it is not UTF-8") from None
        for name in listed[bisect_left(listed, names.start, key=order) :]:
            if not names.holds(order(name)):
                return
            if name.partition("/")[0] not in RESERVED and self._wants(name):
                wrong = flaw(name)
                if wrong is not None:
                    raise CorruptObject(self.source.files, f"it has {name[:100]!r}, but {wrong}")
                try:
                    yield from self._one(name, on_unfit)
                except FileNotFoundError:
                    on_unfit(SourceMissing(f"{self.source.path.rstrip('/')}/{name}"))


def is_within(top: str, path: str) -> bool:
    """Whether a path, in which there are no links any more, is a folder or lies in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def is_remote(path: str) -> bool:
    """Whether a source can be read from anywhere."""
    return path.startswith("s3://")


def name_pattern(text: str) -> re.Pattern[str]:
    """A filter of names, to be searched anywhere in them."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadUsage(f"--name-filter {text[:100]!r} is not a regular expression: {error}") from None


def sorted_names(text: bytes) -> bytes:
    """A list of names, one a line, as it lies in the store: checked, each once, in name order."""
    names = set()
    for number, line in enumerate(text.split(b"\n"), 1):
        name = os.fsdecode(line.removesuffix(b"\r"))
        wrong = flaw(name)
        if name and wrong is not None:
            raise BadUsage(f"line {number} of --files is {name!r}, but {wrong}")
        names.add(name)
    listed = sorted(names - {""}, key=order)
    for above, name in pairwise(listed):
        if is_below(order(name), order(above)):
            raise BadUsage(f"--files names both {above!r} and {name!r}, but no file can lie below another one")
    return "".join(f"{name}\n" for name in listed).encode()
