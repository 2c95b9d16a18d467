"""File lists: entries in name order, as YAML that a machine reads without a YAML parser, and in parts.

    version: 2
    blocks:
    - {"first":"a/b.csv","count":2,"length":284,"latest":1763…,"digest":"0b…"}
    entries:
    - {"name":"a/b.csv","hash":"9f…","size":812,"mode":420,"mtime":…,"timestamp":…,"at":["5d1c…",0]}
    - {"name":"a/c.bin","hash":"0c…","size":734003200,"mode":420,"mtime":…,"timestamp":…,"root":"aa…"}

One entry a line, each a JSON object behind `- `. JSON escapes line breaks, so a line feed is always the end of an
entry, and a reader can seek by bisecting on bytes. A line means the same in any list, so a merge moves lines about and
decodes only what it needs of them.

All up to `entries:` is the head. The descriptor that owns a list keeps the length and the digest of its head, and
the head keeps those of each block of entries; so whoever needs a few names reads the head and a block, and knows
that they are what was written. Lists of version 1 have no blocks, and numbers in the place of packs: they are read
and verified whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise, repeat
from operator import attrgetter, le
from typing import Self, TypeVar

import msgspec
from blake3 import blake3

from datamon.errors import CorruptObject, Failed
from datamon.model import Entry, ListInfo
from datamon.names import EVERYTHING, NameRange, is_below, order
from datamon.stores import ObjectStore

T = TypeVar("T")

MAX_ENTRIES = 50_000  # about 15 MB
BLOCK_ENTRIES = 250  # about 75 kB: what it costs to look up one name
MAX_BLOCK = 256 << 20  # in bytes; with names of 4 kB one has 2 MB
MAX_HEAD = 64 << 20  # one that is said to be longer is not even read; with names of 1 kB it has 250 kB
RECENT = 128  # heads that a process remembers, at most 100 kB each
VERSION = 2

_BLOCKS = b"\nblocks:\n"
_ENTRIES = b"\nentries:\n"
_NAME = b'{"name":"'  # what every entry begins with; a line is what follows
_NEXT = b"\n- " + _NAME
_encode_lines = msgspec.json.Encoder().encode_lines
_name, _size, _timestamp = attrgetter("name"), attrgetter("size"), attrgetter("timestamp")

# Legal in JSON, but YAML forbids these or takes them for line breaks. All are in the BMP, so \uXXXX serves both.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class Block(msgspec.Struct, frozen=True, gc=False):
    """What the head of a list says of some of its entries."""

    first: str
    count: int
    length: int  # in bytes
    latest: int  # the greatest timestamp
    digest: str


class Brief(msgspec.Struct, frozen=True, gc=False):
    """As much of an entry as it takes to put it into a list: decoded three times as fast."""

    name: str
    size: int
    timestamp: int


class Content(msgspec.Struct, frozen=True, gc=False):
    """As much of an entry as it takes to settle its name."""

    name: str
    hash: str
    size: int
    timestamp: int


class _OldEntry(msgspec.Struct, frozen=True, gc=False):
    name: str
    hash: str
    size: int
    mode: int
    mtime: int
    timestamp: int
    at: tuple[int, int] | None = None
    root: str | None = None

    def renewed(self, packs: list[str]) -> Entry:
        at = (packs[self.at[0]], self.at[1]) if self.at is not None else None
        return Entry(self.name, self.hash, self.size, self.mode, self.mtime, self.timestamp, at, self.root)


_decode_content = msgspec.json.Decoder(Content).decode
_decode_entries = msgspec.json.Decoder(Entry).decode_lines
_decode_brief = msgspec.json.Decoder(Brief).decode
_decode_briefs = msgspec.json.Decoder(Brief).decode_lines
_decode_blocks = msgspec.json.Decoder(Block).decode_lines
_decode_old = msgspec.json.Decoder(_OldEntry).decode_lines
_decode_packs = msgspec.json.Decoder(list[str]).decode


class ListWriter:
    """Builds one file list of entries that come in name order. Of all but the last block, only bytes are kept."""

    def __init__(self, per_block: int = BLOCK_ENTRIES) -> None:
        self._per_block = per_block
        self._briefs: list[Brief | Entry] = []  # of the block that is not yet full
        self._lines: list[bytes] = []
        self._blocks: list[Block] = []
        self._bodies: list[bytes] = []
        self._count = self._bytes = 0
        self._last: Brief | Entry | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, *entries: Entry) -> None:
        """Append entries. Names out of order, or below a name that is a file, are refused."""
        _check_order(entries)
        self.move(entries, unlisted(_as_sequence(_json_lines(entries))))

    def move(self, briefs: Sequence[Brief | Entry], lines: Sequence[bytes]) -> None:
        """Append lines of other lists, as they are. Whoever moves them sees to their order among each other."""
        if not briefs:
            return
        if self._last is not None:
            _check_order([self._last, briefs[0]])
        self._last = briefs[-1]
        self._count += len(briefs)
        self._bytes += sum(map(_size, briefs))
        self._briefs += briefs
        self._lines += lines
        full = len(self._lines) // self._per_block * self._per_block
        for start in range(0, full, self._per_block):
            self._close_block(slice(start, start + self._per_block))
        del self._briefs[:full], self._lines[:full]

    def seal(self, index: str) -> tuple[bytes, ListInfo]:
        """The list's bytes and what its descriptor keeps of it. Only a list with entries is worth an object."""
        if self._last is None:
            raise Failed("a file list without entries")
        if self._lines:
            self._close_block(slice(None))
        blocks, last = self._blocks, self._last.name
        head = b"version: %d%s%s%s" % (VERSION, _BLOCKS, _as_sequence(_json_lines(blocks)), _ENTRIES)
        latest = max(block.latest for block in blocks)
        info = ListInfo(
            index, self._count, self._bytes, blocks[0].first, last, blake3(head).hexdigest(), len(head), latest
        )
        return b"".join((head, *self._bodies)), info

    def _close_block(self, some: slice) -> None:
        held, body = self._briefs[some], _listed(self._lines[some])
        latest = max(map(_timestamp, held))
        self._blocks.append(Block(held[0].name, len(held), len(body), latest, blake3(body).hexdigest()))
        self._bodies.append(body)


def _json_lines(items: Sequence[Entry] | Sequence[Block]) -> bytes:
    """An object each, in a form that YAML too reads."""
    body = _encode_lines(items)
    if not body.isascii() or b"\x7f" in body:
        body = _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", body.decode()).encode()
    return body


def _as_sequence(objects: bytes) -> bytes:
    """JSON lines as the lines of a YAML sequence."""
    return b"- " + objects[:-1].replace(b"\n", b"\n- ")


def _plain(sequence: bytes) -> bytes:
    """The lines of a YAML sequence as JSON lines."""
    return sequence.removeprefix(b"- ").replace(b"\n- ", b"\n")


def _listed(lines: Sequence[bytes]) -> bytes:
    return b"- %s%s\n" % (_NAME, _NEXT.join(lines))


def unlisted(body: bytes) -> list[bytes]:
    """The lines of a list, without what each of them begins with: that makes finding them quicker."""
    if not body:
        return []
    lines = body.split(_NEXT)
    lines[0] = lines[0].removeprefix(_NEXT[1:])
    lines[-1] = lines[-1].removesuffix(b"\n")
    return lines


def _whole(lines: Iterable[bytes]) -> bytes:
    """Lines as JSON."""
    return _NAME + (b"\n" + _NAME).join(lines)


def _check_order(entries: Sequence[Brief | Entry]) -> None:
    keys = orders(entries)
    if any(map(le, islice(keys, 1, None), keys)):
        before, name = next((a, b) for a, b in pairwise(keys) if b <= a)
        raise Failed(f"{_shown(name)} came after {_shown(before)} in a file list")
    if any(map(str.startswith, islice(keys, 1, None), keys)):  # seldom, so only then look closer
        for before, name in pairwise(keys):
            if is_below(name, before):
                raise Failed(f"{_shown(before)} is a file, and {_shown(name)} lies below it")


def orders(entries: Iterable[Brief | Entry]) -> list[str]:
    """The order keys of entries: see `names.order`, which here would take longer to call than to do."""
    return list(map(str.replace, map(_name, entries), repeat("/"), repeat("\0")))


def _shown(key: str) -> str:
    return repr(key.replace("\0", "/"))


class Head:
    """The head of a list: where its blocks lie."""

    def __init__(self, key: str, body: bytes) -> None:
        version, in_blocks, blocks = body.removesuffix(_ENTRIES[1:]).partition(_BLOCKS)
        if not in_blocks or version != b"version: %d" % VERSION or not body.endswith(_ENTRIES):
            raise CorruptObject(key, f"`version` is not {VERSION}, or `blocks` or `entries` is missing")
        self.blocks = _decoded(key, _decode_blocks, _plain(blocks), "blocks")
        if not self.blocks:
            raise CorruptObject(key, "`blocks` is empty")
        if not all(0 < block.length <= MAX_BLOCK for block in self.blocks):
            raise CorruptObject(key, f"`blocks`: a `length` is not between 1 and {MAX_BLOCK}")
        self.firsts = [order(block.first) for block in self.blocks]
        if any(map(le, islice(self.firsts, 1, None), self.firsts)):
            raise CorruptObject(key, "`blocks`: they are not in order")
        self.offsets = list(accumulate((block.length for block in self.blocks), initial=len(body)))

    def around(self, names: NameRange) -> tuple[int, int]:
        """Which blocks can hold names of a range: from, and up to."""
        start = max(0, bisect_right(self.firsts, names.start) - 1)
        stop = len(self.firsts) if names.stop is None else bisect_left(self.firsts, names.stop)
        return start, max(start, stop)


_recent: dict[str, Head] = {}  # by digest: the tasks of one process open the same lists again and again


def _remember(digest: str, head: Head) -> None:
    if len(_recent) >= RECENT:
        _recent.clear()  # simple, and safe on many threads
    _recent[digest] = head


@dataclass(frozen=True, slots=True)
class _Held:
    """Lines of a list in memory: of which blocks, and from which byte of the object on."""

    start: int
    stop: int
    lines: bytes
    offset: int

    def between(self, start: int, stop: int, offsets: list[int]) -> bytes:
        """As much of some blocks as is here."""
        assert self.start <= start <= stop <= self.stop, "this was not asked for when it was read"
        return self.lines[max(0, offsets[start] - self.offset) : max(0, offsets[stop] - self.offset)]


def _nothing_more(start: int, length: int | None) -> bytes:
    raise AssertionError(f"of a list that is held, nothing else is read: {length} bytes from {start}")


class FileList:
    """A file list. Only what is asked for is read, and all of that is verified."""

    def __init__(self, key: str, info: ListInfo, get: Get) -> None:
        self._key, self._info, self._get = key, info, get
        self._head: Head | None = None
        self._held: _Held | None = None

    @classmethod
    def stored(cls, store: ObjectStore, key: str, info: ListInfo) -> Self:
        """A list in a store, of which a descriptor keeps this. One of version 1 is read at once, and whole."""
        if not info.head:
            body, info = _renewed(key, store.get(key), info)
            return cls(key, info, _part_of(body))
        return cls(key, info, lambda start, length: store.get(key, start, length))

    @property
    def head(self) -> Head:
        """What stands before the entries."""
        if self._head is None:
            self._head = _recent.get(self._info.digest) or self._read_head()
        return self._head

    def entries(self, names: NameRange = EVERYTHING) -> list[Entry]:
        """The entries in a range of names, in order. Only those lines are decoded."""
        return _decoded(self._key, _decode_entries, _plain(self.read(names)), "entries")

    def read(self, names: NameRange = EVERYTHING) -> bytes:
        """The same as it stands there."""
        if self._held is None and self._is_within(names):
            return self._in_memory().check()
        around = self.head.around(names)
        return self._cut(self._blocks(*around), names, around)

    def hold(self, names: NameRange) -> Self:
        """Read a range at once, with the entry before it. From then on it is all there is of this list, in memory."""
        if self._is_within(names):
            whole = self._in_memory()
            self._held, self._head = _Held(0, len(whole.head.blocks), whole.check(), whole.head.offsets[0]), whole.head
        else:
            start, stop = self.head.around(names)
            lines = self._blocks(start, stop)
            first, end = self._bounds(lines, names, (start, stop))
            before = lines.rfind(b"\n", 0, first - 1) + 1 if first else 0
            self._held = _Held(start, stop, lines[before:end], self.head.offsets[start] + before)
        self._get = _nothing_more
        return self

    def check(self) -> bytes:
        """All entries, when every byte of the list is seen to be right."""
        body = self._get(0, None)
        _check(self._key, body[: self._info.head], self._info.digest)
        end = self.head.offsets[-1]
        if len(body) != end:
            raise CorruptObject(self._key, f"it has {len(body)} bytes, and its head says {end}")
        return self._blocks(0, len(self.head.blocks))

    def briefs(self, lines: list[bytes]) -> list[Brief]:
        """What a merge needs to know of some lines."""
        return _decoded(self._key, _decode_briefs, _whole(lines), "entries") if lines else []

    def above(self, key: str) -> bytes | None:
        """The line of the last entry before an order key, which alone can be a file in the place of a folder above it.

        A list that has the key itself has none, for its split has a folder there.
        """
        number = bisect_left(self.head.firsts, key)
        if number == 0 or key in self.head.firsts[number : number + 1]:
            return None
        block = self._blocks(number - 1, number)
        end = self._seek(block, key, 0, len(block))
        if end == 0:
            raise CorruptObject(self._key, "`blocks`: one does not begin with its `first`")
        return unlisted(block[block.rfind(b"\n", 0, end - 1) + 1 : end])[0]

    def latest(self, names: NameRange) -> int | None:
        """The greatest timestamp in a range of names. Of the blocks that lie inside, the head knows it."""
        start, stop = self.head.around(names)
        inside = [block.latest for block in self.head.blocks[start + 1 : stop - 1]]
        for number in {start, stop - 1} if start < stop else ():
            edge = self._cut(self._blocks(number, number + 1), names, (number, number + 1))
            inside += map(_timestamp, self.briefs(unlisted(edge)))
        return max(inside, default=None)

    def _is_within(self, names: NameRange) -> bool:
        return names.holds(order(self._info.first)) and names.holds(order(self._info.last))

    def _in_memory(self) -> Self:
        return type(self)(self._key, self._info, _part_of(self._get(0, None)))

    def _read_head(self) -> Head:
        if not 0 < self._info.head <= MAX_HEAD:
            raise CorruptObject(self._key, f"its descriptor says that its head has {self._info.head} bytes")
        body = self._get(0, self._info.head)
        _check(self._key, body, self._info.digest)
        head = Head(self._key, body)
        _remember(self._info.digest, head)
        return head

    def _blocks(self, start: int, stop: int) -> bytes:
        """The entries of some blocks, as lines."""
        offsets = self.head.offsets
        if self._held is not None:
            return self._held.between(start, stop, offsets)
        lines = self._get(offsets[start], offsets[stop] - offsets[start])
        view = memoryview(lines)
        for block, offset in zip(self.head.blocks[start:stop], offsets[start:stop], strict=True):
            at = offset - offsets[start]
            _check(self._key, view[at : at + block.length], block.digest)
            if lines[at + block.length - 1 : at + block.length] != b"\n":
                raise CorruptObject(self._key, "`entries`: a block does not end with its line")
        return lines

    def _cut(self, lines: bytes, names: NameRange, around: tuple[int, int]) -> bytes:
        """Only those lines of some blocks that are in a range."""
        start, stop = self._bounds(lines, names, around)
        return lines[start:stop]

    def _bounds(self, lines: bytes, names: NameRange, around: tuple[int, int]) -> tuple[int, int]:
        """Where a range lies in lines of the blocks around it: it begins in the first one, and ends in the last."""
        (first, last), offsets = around, self.head.offsets
        start, stop = 0, len(lines)
        if first == last:
            return start, stop
        at = offsets[first] if self._held is None else max(offsets[first], self._held.offset)
        if self.head.firsts[first] < names.start:
            start = self._seek(lines, names.start, 0, min(stop, offsets[first + 1] - at))
        if names.stop is not None:
            stop = self._seek(lines, names.stop, min(stop, max(start, offsets[last - 1] - at)), stop)
        return start, stop

    def _seek(self, lines: bytes, key: str, low: int, high: int) -> int:
        """Where the first entry at or after an order key stands. Bisects on bytes, decoding a line a step."""
        while low < high:
            start = lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = lines.find(b"\n", start) + 1
            if order(_decoded(self._key, _decode_brief, lines[start + 2 : end - 1], "entries").name) < key:
                low = end
            else:
                high = start
        return low


def read_content(key: str, line: bytes) -> Content:
    """What one line of a list says."""
    return _decoded(key, _decode_content, _NAME + line, "entries")


def moved_below(folder: str, line: bytes) -> bytes:
    """The line of the same entry in a folder, whose name is plain ASCII."""
    return b"%s/%s" % (folder.encode(), line)


def read_whole(store: ObjectStore, key: str, info: ListInfo) -> bytes:
    """All bytes of a list, verified."""
    body = store.get(key)
    if info.head:
        FileList(key, info, _part_of(body)).check()
    else:
        _check(key, body, info.digest)
    return body


def read_info(key: str, body: bytes, index: str) -> ListInfo:
    """What a descriptor keeps of a list, made from the whole list itself."""
    unknown = ListInfo(index, 0, 0, "", "", blake3(body).hexdigest())
    if body.startswith(b"version: 1\n"):
        return replace(_renewed(key, body, unknown)[1], digest=unknown.digest, head=0)
    head = body[: body.find(_ENTRIES) + len(_ENTRIES)]
    known = replace(unknown, digest=blake3(head).hexdigest(), head=len(head))
    found = FileList(key, known, _part_of(body))
    found.check()
    entries = found.entries()
    if not entries:
        raise CorruptObject(key, "`entries` is empty")
    return replace(
        known,
        count=len(entries),
        bytes=sum(map(_size, entries)),
        first=entries[0].name,
        last=entries[-1].name,
        latest=max(map(_timestamp, entries)),
    )


def _renewed(key: str, body: bytes, info: ListInfo) -> tuple[bytes, ListInfo]:
    """A list of version 1, verified, as a list of this version with the same entries."""
    _check(key, body, info.digest)
    top, found, lines = body.partition(_ENTRIES)
    version, _, packs = top.partition(b"\npacks: ")
    if not found or version != b"version: 1":
        raise CorruptObject(key, f"`version` is neither 1 nor {VERSION}, or `entries` is missing")
    table = _decoded(key, _decode_packs, packs, "packs")
    entries = _decoded(key, _decode_old, _plain(lines), "entries")
    writer = ListWriter()
    try:
        writer.add(*(entry.renewed(table) for entry in entries))
        return writer.seal(info.index)
    except (Failed, IndexError) as error:
        raise CorruptObject(key, f"`entries`: {error}") from error


Get = Callable[[int, int | None], bytes]
"""Reads bytes of an object: from where, and how many."""


def _part_of(body: bytes) -> Get:
    return lambda start, length: body[start : None if length is None else start + length]


def _check(key: str, body: bytes | memoryview, digest: str) -> None:
    if blake3(body).hexdigest() != digest:
        raise CorruptObject(key, "its bytes do not match the digest in its descriptor")


def _decoded(key: str, decode: Callable[[bytes], T], lines: bytes, field: str) -> T:
    try:
        return decode(lines)
    except msgspec.DecodeError as error:
        raise CorruptObject(key, f"`{field}`: {error}") from error
