"""File lists: entries in name order, as YAML that a machine reads without a YAML parser.

    version: 1
    packs: ["5d1c…", "77aa…"]
    entries:
    - {"name":"a/b.csv","hash":"9f…","size":812,"mode":420,"mtime":…,"timestamp":…,"at":[0,0]}
    - {"name":"a/c.bin","hash":"0c…","size":734003200,"mode":420,"mtime":…,"timestamp":…,"root":"aa…"}

One entry a line, each a JSON object behind `- `. `at` is (which of `packs`, offset in it). JSON escapes line
breaks, so a line feed is always the end of an entry, and a reader can seek by bisecting on bytes.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import msgspec
from blake3 import blake3

from datamon.errors import CorruptObject, Failed
from datamon.model import VERSION, Entry, ListInfo
from datamon.names import EVERYTHING, NameRange, is_below, order

T = TypeVar("T")

MAX_ENTRIES = 50_000  # about 10 MB: one GET, decoded in a tenth of a second

_ENTRIES = b"\nentries:\n"
_LINE = b"\n- "
_encode = msgspec.json.Encoder().encode
_entries = msgspec.json.Decoder(Entry)
_strings = msgspec.json.Decoder(list[str])

# Legal in JSON, but YAML forbids these or takes them for line breaks. All are in the BMP, so \uXXXX serves both.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class ListWriter:
    """Builds one file list. Entries come in name order, each with the table of packs that its `at` points into."""

    def __init__(self) -> None:
        self._packs: dict[str, int] = {}
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, packs: Sequence[str]) -> None:
        """Append an entry. A name out of order, or below a name that is a file, is refused."""
        if self._entries:
            before, key = order(self._entries[-1].name), order(entry.name)
            if key <= before:
                raise Failed(f"{entry.name!r} came after {self._entries[-1].name!r} in a file list")
            if is_below(key, before):
                raise Failed(f"{self._entries[-1].name!r} is a file, and {entry.name!r} lies below it")
        if entry.at is not None:
            pack = self._packs.setdefault(packs[entry.at[0]], len(self._packs))
            if pack != entry.at[0]:
                entry = msgspec.structs.replace(entry, at=(pack, entry.at[1]))
        self._entries.append(entry)

    def seal(self, index: str) -> tuple[bytes, ListInfo]:
        """The list's bytes and what its descriptor keeps of it. Only a list with entries is worth an object."""
        head = b"version: %d\npacks: %s" % (VERSION, _encode(list(self._packs)))
        body = head + _ENTRIES + b"".join(b"- %s\n" % _encode(entry) for entry in self._entries)
        if not body.isascii() or b"\x7f" in body:
            body = _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", body.decode()).encode()
        return body, _info(index, body, self._entries)


class FileList:
    """A file list that was read. Give the digest that its descriptor keeps, to have the bytes checked against it."""

    def __init__(self, key: str, body: bytes, digest: str | None = None) -> None:
        if digest is not None and blake3(body).hexdigest() != digest:
            raise CorruptObject(key, "its bytes do not match the digest in its descriptor")
        self._key, self._body = key, body
        head, found, _ = body.partition(_ENTRIES)
        version, _, packs = head.partition(b"\npacks: ")
        if not found or version != b"version: %d" % VERSION:
            raise CorruptObject(key, f"`version` is not {VERSION}, or `entries` is missing")
        self._start = len(head) + len(_ENTRIES) - 1  # on the line feed before the first entry
        self.packs = self._decode(_strings, packs, "packs")

    def entries(self, names: NameRange = EVERYTHING) -> list[Entry]:
        """The entries in a range of names, in order. Only those lines are decoded."""
        start = self._seek(names.start) + len(_LINE)
        stop = self._seek(names.stop) if names.stop is not None else len(self._body)
        try:
            return _entries.decode_lines(self._body[start:stop].replace(_LINE, b"\n"))
        except msgspec.DecodeError as error:
            raise CorruptObject(self._key, f"`entries`: {error}") from error

    def info(self, index: str) -> ListInfo:
        """What the descriptor keeps of this list, made from the list itself."""
        return _info(index, self._body, self.entries())

    def _seek(self, key: str) -> int:
        """The line feed before the first entry at or after an order key. Bisects on bytes, decoding a line a step."""
        low, high = self._start, len(self._body) - 1
        while low < high:
            middle = self._body.rfind(b"\n", low, (low + high) // 2 + 1)
            end = self._body.find(b"\n", middle + 1)
            entry = self._decode(_entries, self._body[middle + len(_LINE) : end], "entries")
            if order(entry.name) < key:
                low = end
            else:
                high = middle
        return low

    def _decode(self, decoder: msgspec.json.Decoder[T], line: bytes, field: str) -> T:
        try:
            return decoder.decode(line)
        except msgspec.DecodeError as error:
            raise CorruptObject(self._key, f"`{field}`: {error}") from error


def in_order(lists: Iterable[tuple[ListInfo, Iterable[T]]], name: Callable[[T], str]) -> Iterator[T]:
    """What the lists hold, in name order, opening each list only when its turn comes.

    Lists that follow each other are chained; only those that overlap (the lists of lost versions do) are merged.
    """
    runs: list[list[tuple[ListInfo, Iterable[T]]]] = []
    for info, items in sorted(lists, key=lambda pair: order(pair[0].first)):
        for run in runs:
            if order(run[-1][0].last) < order(info.first):
                run.append((info, items))
                break
        else:
            runs.append([(info, items)])
    chains = (chain.from_iterable(items for _, items in run) for run in runs)
    return heapq.merge(*chains, key=lambda item: order(name(item)))


def _info(index: str, body: bytes, entries: Sequence[Entry]) -> ListInfo:
    return ListInfo(
        index=index,
        count=len(entries),
        bytes=sum(entry.size for entry in entries),
        first=entries[0].name,
        last=entries[-1].name,
        digest=blake3(body).hexdigest(),
    )
