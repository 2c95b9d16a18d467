"""The one reader of bundles: entries by range and by folder, one name, and any bytes of a file, all of it verified.

A reader needs the store alone. It can be laid under an overlay: lists that were staged after the bundle, the newest
last, deletions included.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from datamon.bundles.model import Bundle
from datamon.content.entry import FOLDER, MAX_FRAME_BYTES, Entry, Place, no_content
from datamon.content.reading import read_range
from datamon.core.errors import CorruptObject, NotFound, Remedy
from datamon.core.names import (
    EVERYTHING,
    NameRange,
    ancestors,
    inside_folder,
    link_problem,
    name_problem,
    only_name,
    sort_key,
)
from datamon.lists.format import Deletion
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.lists.sequence import in_order
from datamon.merge.rules import deleted_folder
from datamon.stores import keys
from datamon.stores.context import Context

OWN_FOLDER = ".datamon"  # what datamon itself keeps in a downloaded bundle
MAX_STORED_NAME = 4096  # what lost is filed below a folder and a split id, so it may be longer than an uploaded name
_HASH = re.compile(r"[0-9a-f]{64}")


Skipping = Callable[[ListRef], Collection[str]]
"""Which blocks of a list to leave out, by their identities."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Some file lists read as one, and how to open them."""

    references: Sequence[ListRef]
    open: Callable[[ListRef], FileList]

    def entries(
        self, names: NameRange = EVERYTHING, skipping: Skipping | None = None, *, gradually: bool = False
    ) -> Iterator[Entry | Deletion]:
        """Their entries in a range of names, in name order. A list is opened when its turn comes.

        A list is read at once or, for those who may need only its beginning, gradually.
        """

        def opened(reference: ListRef) -> Iterator[Entry | Deletion]:
            skipped = skipping(reference) if skipping is not None else ()
            yield from self.open(reference).entries(names, skipped, gradually=gradually)

        met = [reference for reference in self.references if reference.meets(names)]
        return in_order([(reference, opened(reference)) for reference in met], lambda entry: entry.name)


def bundle_lists(context: Context, references: Sequence[ListRef]) -> Lists:
    """Lists of bundles."""
    return Lists(references, lambda one: FileList.stored(context.metadata, keys.file_list(one.digest), one))


def uploaded_lists(context: Context, folder: str, references: Sequence[ListRef]) -> Lists:
    """Lists of an upload, in the folder of its split."""
    return Lists(references, lambda one: FileList.stored(context.vmetadata, keys.uploaded_list(folder, one.index), one))


@dataclass(frozen=True, slots=True)
class BundleReader:
    """Reads a bundle, with what is laid over it."""

    context: Context
    bundle: Bundle
    overlay: Sequence[Lists] = field(default=())  # the newest last

    @property
    def lists(self) -> Lists:
        """The lists of the bundle, without what is laid over it."""
        return bundle_lists(self.context, self.bundle.lists)

    def entries(self, names: NameRange = EVERYTHING, *, gradually: bool = False) -> Iterator[Entry]:
        """The entries in a range of names, in name order."""
        if self.overlay:
            return Overlay(self.lists, self.overlay).entries(names)
        return only_files(self.lists.entries(names, gradually=gradually))

    def trusted(self, entry: Entry) -> Entry:
        """An entry that leads to one file of a destination and to objects of the store, whoever wrote the list."""
        problem = entry_problem(entry)
        if problem is not None:
            raise CorruptObject(f"bundle {self.bundle.id}", f"it lists {entry.name!r}, but {problem}")
        return entry

    def folder(self, name: str) -> Iterator[Entry | str]:
        """What lies directly in a folder, in name order: files, and the names of folders, ending in `/`.

        What is in those folders is passed over unread, but for the blocks that it begins in.
        """
        prefix = f"{name}/" if name else ""
        inside = inside_folder(sort_key(name)) if name else EVERYTHING
        position: str | None = inside.start
        while position is not None:
            names, position = NameRange(position, inside.stop), None
            for entry in self.entries(names, gradually=True):
                head, is_folder, _ = entry.name.removeprefix(prefix).partition("/")
                if is_folder:
                    yield f"{prefix}{head}/"
                    position = sort_key(prefix + head) + "\1"  # go on behind it
                    break
                if not entry.is_folder:
                    yield entry

    def find(self, name: str) -> Entry:
        """One file."""
        entry = next(self.entries(only_name(sort_key(name))), None)
        if entry is None:
            raise NotFound("file", name, Remedy.LIST_FILES)
        return self.trusted(entry)

    def read(self, entry: Entry, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Any bytes of a file. None is given before it is verified."""
        return read_range(self.trusted(entry), self.context.blob, start, length)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files of a bundle: those in a range of names that pass a filter."""

    names: NameRange = EVERYTHING
    accepts: Callable[[str], Any] = lambda _: True

    def entries(self, reader: BundleReader) -> Iterator[Entry]:
        """Those files."""
        return (reader.trusted(entry) for entry in reader.entries(self.names) if self.accepts(entry.name))


@dataclass(frozen=True, slots=True)
class Overlay:
    """A base with layers over it, the newest last: what somebody sees who reads while writes are not committed.

    A newer entry takes the place of an older one of its name, of a file above it, and of everything below it.
    """

    base: Lists
    layers: Sequence[Lists]

    def entries(self, names: NameRange = EVERYTHING) -> Iterator[Entry]:
        """What there is in a range of names, in name order."""
        inputs = [self.base.entries(names), *(layer.entries(names) for layer in self.layers)]
        return overlaid(inputs, self._covers(names.start), lambda key, rank: self._has_newer_below(key, rank, names))

    def _covers(self, start: str) -> list[tuple[NameRange, int]]:
        """What reaches into a range from above: files where it needs folders, and deletions of those folders."""
        folders = list(ancestors(start))
        wanted = ["\0", *folders, *(f"{folder}\0" for folder in folders)]
        return [
            (_reach(entry), rank)
            for rank, layer in enumerate(self.layers, 1)
            for key in wanted
            for entry in layer.entries(only_name(key))
            if isinstance(entry, Entry) or entry.is_folder
        ]

    def _has_newer_below(self, key: str, rank: int, names: NameRange) -> bool:
        """Whether a layer after this rank holds a file below a name, behind the end of a range."""
        inside = inside_folder(key)
        if names.stop is None or inside.stop is None or names.stop >= inside.stop:
            return False
        rest = NameRange(max(inside.start, names.stop), inside.stop)
        return any(isinstance(entry, Entry) for layer in self.layers[rank:] for entry in layer.entries(rest))


def _reach(entry: Entry | Deletion) -> NameRange:
    """The names below an entry, which it removes where they are older."""
    key = sort_key(entry.name)
    return inside_folder(key) if isinstance(entry, Entry) else deleted_folder(key)


def overlaid(
    inputs: Sequence[Iterable[Entry | Deletion]],
    covers: Iterable[tuple[NameRange, int]] = (),
    has_newer_below: Callable[[str, int], bool] = lambda _key, _rank: False,
) -> Iterator[Entry]:
    """Inputs over each other, the newest last; `covers` reach in from names before, each removing what is older."""

    def ranked(rank: int, entries: Iterable[Entry | Deletion]) -> Iterator[tuple[str, int, Entry | Deletion]]:
        return ((sort_key(entry.name), rank, entry) for entry in entries)

    merged = heapq.merge(*(ranked(rank, one) for rank, one in enumerate(inputs)), key=lambda item: item[:2])
    over = list(covers)
    held: tuple[NameRange, int, Entry] | None = None  # a file, until it is seen that nothing newer lies below it
    for key, same in groupby(merged, key=lambda item: item[0]):
        versions = [(rank, entry) for _, rank, entry in same]
        newest, entry = versions[-1]
        over = [cover for cover in over if cover[0].holds(key)]
        if isinstance(entry, Deletion) and entry.is_folder:
            over.append((_reach(entry), newest))
            continue
        files = [rank for rank, version in versions if isinstance(version, Entry)]
        if held is not None and not held[0].holds(key):
            yield held[2]
            held = None
        if held is not None and files and files[-1] > held[1]:
            held = None
        if isinstance(entry, Entry) and not any(newest < least for _, least in over):
            held = inside_folder(key), newest, entry
        over += ((inside_folder(key), rank) for rank in files)
    if held is not None and not has_newer_below(sort_key(held[2].name), held[1]):
        yield held[2]


def only_files(entries: Iterable[Entry | Deletion]) -> Iterator[Entry]:
    """Without deletions, which the lists of a bundle do not hold."""
    return (entry for entry in entries if isinstance(entry, Entry))


def entry_problem(entry: Entry) -> str | None:
    """Why an entry cannot be trusted to lead to one file of a destination and to objects of the store."""
    if entry.name.split("/")[0] == OWN_FOLDER:
        return "the name is reserved for datamon's own files"
    at = entry.at or Place("", 0)
    digests = (entry.hash, entry.root, entry.at.pack if entry.at is not None else None)
    if not all(_HASH.fullmatch(digest) for digest in digests if digest is not None):
        return "its hash is missing or is not one"
    numbers = (entry.size, entry.mode, at.offset, at.start, at.length)
    if not all(0 <= number < 1 << 62 for number in numbers) or abs(entry.mtime) >= 1 << 70:
        return "one of its numbers is out of bounds"
    if at.length > MAX_FRAME_BYTES or (entry.at is not None and entry.size > MAX_FRAME_BYTES):
        return f"it lies in a pack, and has more than {MAX_FRAME_BYTES} bytes"
    if entry.at is None and entry.root is None and not no_content(entry):
        return "it does not say where its bytes are"
    if entry.is_folder and (entry.size or entry.link is not None):
        return "it is a folder and has content"
    if entry.link is not None and (problem := link_problem(entry.name, entry.link)):
        return problem
    name = entry.name.removesuffix(FOLDER)
    return name_problem(name, MAX_STORED_NAME)  # how long a part may be, its file system says
