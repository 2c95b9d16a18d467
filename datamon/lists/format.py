"""The bytes of a file list: lines, blocks and the head. See the package for the layout."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from operator import attrgetter, itemgetter, le
from typing import TypeVar

import msgspec
from blake3 import blake3

from datamon.content.entry import Entry, Place
from datamon.core.errors import CorruptObject, Failed
from datamon.core.names import EVERYTHING, NameRange, is_below, name_of, sort_key
from datamon.stores.json_lines import as_array, join_lines, lines_of

T = TypeVar("T")

VERSION = 1
MAX_BLOCK = 256 << 20  # bytes; with names of 4 kB a usual one has 2 MB
MAX_HEAD = 64 << 20  # bytes; one that is said to be longer is not even read

TOP = b"version: %d\nindex: [\n" % VERSION
END_OF_HEAD = b" ]\nblocks:\n"
OPEN, BETWEEN, CLOSE = b"- entries: [\n", b" ]\n  places: [\n", b" ]\n"  # around the entries and places of a block
END_OF_LINE = b",\n"
AROUND = len(OPEN) + len(BETWEEN) + len(CLOSE)

_NAME = b' {"name":"'  # what the line of every entry begins with


DELETED = -1  # in the place of a size


class Deletion(msgspec.Struct, frozen=True, gc=False):
    """An entry that removes a name or, where the name ends in `/`, everything below that folder."""

    name: str
    timestamp: int

    @property
    def is_folder(self) -> bool:
        """Whether it removes everything below a folder."""
        return self.name.endswith("/")


class Block(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the head of a list says about some of its entries."""

    first: str
    count: int
    bytes: int  # of the files
    entries: int  # bytes of the lines of entries
    places: int  # bytes of the lines of places
    identity: str  # the digest of the entries
    digest: str  # the digest of the places
    latest: int = 0  # the greatest timestamp of a file in it
    deletions: int = 0

    @property
    def length(self) -> int:
        """How many bytes it takes in the list."""
        return self.entries + self.places + AROUND

    @property
    def settled(self) -> Block:
        """The same for a bundle, where the latest timestamp has no use and would only make equal blocks differ."""
        if not self.latest:
            return self
        return Block(
            self.first, self.count, self.bytes, self.entries, self.places, self.identity, self.digest, 0, self.deletions
        )


class _Summary(msgspec.Struct, frozen=True, gc=False):
    """What must be known of an entry to put it into a list: quick to decode."""

    name: str
    size: int = DELETED


class Named(msgspec.Struct, frozen=True, gc=False):
    """What the line of an entry says."""

    name: str
    hash: str = ""
    size: int = 0
    mode: int = 0
    link: str | None = None
    deleted: bool = False


class _Placed(msgspec.Struct, frozen=True, gc=False):
    """What the line of a place says."""

    timestamp: int
    mtime: int = 0
    at: Place | None = None
    root: str | None = None


class _FileLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    hash: str
    size: int
    mode: int
    link: str | None = None


class _DeletionLine(msgspec.Struct, frozen=True, gc=False):
    name: str
    deleted: bool = True


class _FilePlace(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    mtime: int
    timestamp: int
    at: Place | tuple[str, int] | None = None
    root: str | None = None


class _DeletionPlace(msgspec.Struct, frozen=True, gc=False):
    timestamp: int


_decode_summaries = msgspec.json.Decoder(list[_Summary]).decode
_decode_named = msgspec.json.Decoder(list[Named]).decode
_decode_placed = msgspec.json.Decoder(list[_Placed]).decode
_decode_one = msgspec.json.Decoder(Named).decode
_decode_time = msgspec.json.Decoder(_DeletionPlace).decode
_decode_blocks = msgspec.json.Decoder(list[Block]).decode
_size_of = attrgetter("size")


@dataclass(frozen=True, slots=True)
class Rows:
    """Entries in name order, as columns: their sort keys, their sizes, and the lines of them and of their places."""

    keys: list[str]
    sizes: list[int]
    lines: list[bytes]
    places: list[bytes]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, some: slice) -> Rows:
        return Rows(self.keys[some], self.sizes[some], self.lines[some], self.places[some])

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            self.keys + other.keys, self.sizes + other.sizes, self.lines + other.lines, self.places + other.places
        )

    @property
    def first(self) -> str:
        """The name of the first of them."""
        return name_of(self.keys[0])

    @property
    def last(self) -> str:
        """The name of the last of them."""
        return name_of(self.keys[-1])

    def at(self, positions: Sequence[int], keys: list[str] | None = None) -> Rows:
        """The rows at some positions, in that order. A caller that has their sort keys saves picking them."""
        return Rows(
            keys if keys is not None else pick(self.keys, positions),
            pick(self.sizes, positions),
            pick(self.lines, positions),
            pick(self.places, positions),
        )

    def without(self, positions: Sequence[int]) -> Rows:
        """All rows but those at some positions, which ascend."""
        spans = [slice(start + 1, stop) for start, stop in pairwise([-1, *positions, len(self)])]
        return Rows(
            [one for span in spans for one in self.keys[span]],
            [one for span in spans for one in self.sizes[span]],
            [one for span in spans for one in self.lines[span]],
            [one for span in spans for one in self.places[span]],
        )


def pick(items: Sequence[T], positions: Sequence[int]) -> list[T]:
    """The items at some positions: twice as fast as a list comprehension."""
    if len(positions) < 2:
        return [items[position] for position in positions]
    return list(itemgetter(*positions)(items))


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Rows after each other."""
    return Rows(
        list(chain.from_iterable(part.keys for part in parts)),
        list(chain.from_iterable(part.sizes for part in parts)),
        list(chain.from_iterable(part.lines for part in parts)),
        list(chain.from_iterable(part.places for part in parts)),
    )


def no_rows() -> Rows:
    """No rows at all."""
    return Rows([], [], [], [])


def rows_of(entries: Sequence[Entry | Deletion]) -> Rows:
    """Entries as rows. Names out of order, or below a name that is a file, are refused."""
    lines: list[_FileLine | _DeletionLine] = []
    places: list[_FilePlace | _DeletionPlace] = []
    for entry in entries:
        if isinstance(entry, Deletion):
            lines.append(_DeletionLine(entry.name))
            places.append(_DeletionPlace(entry.timestamp))
        else:
            lines.append(_FileLine(entry.name, entry.hash, entry.size, entry.mode, entry.link))
            at = entry.at.stored if entry.at is not None else None
            places.append(_FilePlace(entry.mtime, entry.timestamp, at, entry.root))
    keys = [sort_key(entry.name) for entry in entries]
    sizes = [DELETED if isinstance(entry, Deletion) else entry.size for entry in entries]
    check_order(keys, [size == DELETED for size in sizes])
    return Rows(keys, sizes, lines_of(lines), lines_of(places))


def check_order(keys: Sequence[str], deleted: Sequence[bool] = ()) -> None:
    """Refuse sort keys that do not ascend, or that lie below one that is a file; `deleted` says which are not."""
    if any(map(le, islice(keys, 1, None), keys)):
        before, key = next((a, b) for a, b in pairwise(keys) if b <= a)
        raise Failed(f"{_shown(key)} came after {_shown(before)} in a file list")
    if any(map(str.startswith, islice(keys, 1, None), keys)):  # rare, so look closer only then
        file = ""  # the last key of a file
        for number, key in enumerate(keys):
            if file and is_below(key, file) and key != file + "\0":  # that deletes what was below it
                raise Failed(f"{_shown(file)} is a file, and {_shown(key)} lies below it")
            if not (deleted and deleted[number : number + 1] == [True]):
                file = key


def _shown(key: str) -> str:
    return repr(name_of(key))


def decode_rows(key: str, entries: Sequence[bytes], places: Sequence[bytes]) -> Rows:
    """The rows of blocks that follow each other. Bytes are copied rarely: a merge spends most of its time here."""
    array = b"".join((b"[", *entries[:-1], entries[-1][:-2], b"]"))  # without the last comma it is JSON
    summaries = _decoded(key, _decode_summaries, array, "entries")
    lines = array.split(b"\n")
    lines[0] = lines[0][1:]
    lines[-1] = lines[-1][:-1] + b","
    place_lines = b"".join(places).split(b"\n")
    place_lines.pop()  # what follows the last end of a line
    if not len(summaries) == len(lines) == len(place_lines):
        raise CorruptObject(key, "`entries` and `places` do not match")
    keys = [summary.name.replace("/", "\0") for summary in summaries]  # to call `sort_key` takes longer than this
    return Rows(keys, list(map(_size_of, summaries)), lines, place_lines)


def rows_of_blocks(raws: Sequence[RawBlock], names: NameRange = EVERYTHING) -> Rows:
    """The rows of blocks that follow each other, in a range of names. What lies outside is not decoded."""
    parts = _lines_of_blocks(raws, names)
    return decode_rows(raws[0].key, *zip(*parts, strict=True)) if parts else no_rows()


def entries_of_blocks(raws: Sequence[RawBlock], names: NameRange = EVERYTHING) -> list[Entry | Deletion]:
    """The entries of blocks that follow each other, in a range of names."""
    parts = _lines_of_blocks(raws, names)
    return decode_entries(raws[0].key, *zip(*parts, strict=True)) if parts else []


def _lines_of_blocks(raws: Sequence[RawBlock], names: NameRange) -> list[tuple[bytes, bytes]]:
    """The lines of entries and places of blocks that follow each other, in a range of names."""
    parts = [(raw.entries, raw.places) for raw in raws]
    if names != EVERYTHING:
        for number in {0, len(raws) - 1} if raws else ():
            parts[number] = raws[number].lines(names)
    return [part for part in parts if part[0]]


def decode_entries(key: str, entries: Sequence[bytes], places: Sequence[bytes]) -> list[Entry | Deletion]:
    """The entries of blocks that follow each other."""
    named = _decoded(key, _decode_named, as_array(b"".join(entries)), "entries")
    placed = _decoded(key, _decode_placed, as_array(b"".join(places)), "places")
    if len(named) != len(placed):
        raise CorruptObject(key, "`entries` and `places` do not match")
    return [
        Deletion(n.name, p.timestamp)
        if n.deleted
        else Entry(n.name, n.hash, n.size, n.mode, p.mtime, p.timestamp, p.at, p.root, n.link)
        for n, p in zip(named, placed, strict=True)
    ]


def decode_line(key: str, line: bytes) -> Named:
    """What the line of one entry says."""
    try:
        return _decode_one(line[:-1])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptObject(key, f"`entries`: {error}") from error


def decode_timestamp(key: str, place: bytes) -> int:
    """The timestamp in the line of one place."""
    try:
        return _decode_time(place[:-1]).timestamp
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptObject(key, f"`places`: {error}") from error


def moved_below(folder: str, line: bytes) -> bytes:
    """The line of the same entry in a folder, whose name is plain ASCII."""
    if not line.startswith(_NAME):
        raise CorruptObject(folder, "the line of an entry does not begin with its name")
    return b"%s%s/%s" % (_NAME, folder.encode(), line[len(_NAME) :])


class RawBlock:
    """A block as it is stored, somewhere in the bytes of a list. Nothing is copied until it is decoded.

        at     start                  middle                          end
        | OPEN | lines of entries     | BETWEEN | lines of places     | CLOSE |

    All are offsets in `body`. They are attributes, not properties, because a large commit copies thousands of blocks
    and reads each offset often.
    """

    __slots__ = ("at", "block", "body", "end", "key", "middle", "start")

    def __init__(self, block: Block, body: bytes, at: int = 0, key: str = "") -> None:
        """`key` is that of the list that the block comes from."""
        self.block, self.body, self.at, self.key = block, body, at, key
        self.start = at + len(OPEN)
        self.middle = self.start + block.entries
        self.end = self.middle + len(BETWEEN) + block.places

    @property
    def entries(self) -> bytes:
        """The lines of its entries."""
        return self.body[self.start : self.middle]

    @property
    def places(self) -> bytes:
        """The lines of its places."""
        return self.body[self.middle + len(BETWEEN) : self.end]

    @property
    def stored(self) -> memoryview:
        """All of its bytes."""
        return memoryview(self.body)[self.at : self.end + len(CLOSE)]

    def check(self) -> None:
        """Refuse it if its bytes are not those that the head vouches for."""
        view, places = memoryview(self.body), self.middle + len(BETWEEN)
        check_digest(self.key, view[self.start : self.middle], self.block.identity)
        check_digest(self.key, view[places : self.end], self.block.digest)
        if not (
            self.body.startswith(OPEN, self.at)
            and self.body.startswith(BETWEEN, self.middle)
            and self.body.startswith(CLOSE, self.end)
            and self.body.endswith(END_OF_LINE, self.start, self.middle)
            and self.body.endswith(END_OF_LINE, places, self.end)
        ):
            raise CorruptObject(self.key, "`blocks`: a block does not begin or end as it should")

    def rows(self, names: NameRange = EVERYTHING) -> Rows:
        """Its rows in a range of names, decoded."""
        return rows_of_blocks([self], names)

    def lines(self, names: NameRange) -> tuple[bytes, bytes]:
        """The lines of its entries and places in a range of names. Only a few names are decoded to find them."""
        start = self._offset(names.start)
        stop = self.middle if names.stop is None else self._offset(names.stop)
        if (start, stop) == (self.start, self.middle):
            return self.entries, self.places
        before, count = self.body.count(b"\n", self.start, start), self.body.count(b"\n", start, stop)
        places = self.places.split(b"\n", before + count)
        return self.body[start:stop], join_lines(places[before:-1])

    def row_before(self, key: str) -> Rows:
        """The last row before a sort key; none if the block holds the key itself. The block begins before the key."""
        offset = self._offset(key)
        if offset == self.start:
            raise CorruptObject(self.key, "`index`: a block does not begin with its `first`")
        if offset < self.middle and self._key_at(offset)[0] == key:
            return no_rows()
        start = self._line_before(offset)
        before = self.body.count(b"\n", self.start, start)
        places = self.places.split(b"\n", before + 1)[before:-1]
        return decode_rows(self.key, [self.body[start:offset]], [join_lines(places)])

    def _offset(self, key: str) -> int:
        """The offset of the first line whose name has this sort key or a greater one.

            start      low                 middle             high        end of entries
            | < key    | not looked at yet |                  | >= key    |

        All three are beginnings of lines.
        """
        low, high = self.start, self.middle
        while low < high:
            middle = max(low, self.body.rfind(b"\n", low, (low + high) // 2) + 1)
            found, end = self._key_at(middle)
            if found < key:
                low = end
            else:
                high = middle
        return low

    def _key_at(self, offset: int) -> tuple[str, int]:
        """The sort key in the line that begins at an offset, and where the next line begins."""
        end = self.body.find(b"\n", offset) + 1
        return sort_key(decode_line(self.key, self.body[offset : end - 1]).name), end

    def _line_before(self, offset: int) -> int:
        """Where the line begins that ends at an offset."""
        return max(self.start, self.body.rfind(b"\n", self.start, offset - 1) + 1)

    @property
    def last(self) -> str:
        """Its last name. Only the last line is decoded."""
        return decode_line(self.key, self.body[self._line_before(self.middle) : self.middle - 1]).name


def check_digest(key: str, body: bytes | memoryview, digest: str) -> None:
    """Refuse bytes that do not have this digest."""
    if blake3(body).hexdigest() != digest:
        raise CorruptObject(key, "its bytes do not match the digest in its descriptor")


def make_block(rows: Rows, latest: int = 0, deletions: int = 0) -> RawBlock:
    """A block of these rows. Its writer knows the latest timestamp, and how many of the rows are deletions."""
    entries, places = join_lines(rows.lines), join_lines(rows.places)
    block = Block(
        first=rows.first,
        count=len(rows),
        bytes=sum(rows.sizes) - DELETED * deletions,
        entries=len(entries),
        places=len(places),
        identity=blake3(entries).hexdigest(),
        digest=blake3(places).hexdigest(),
        latest=latest,
        deletions=deletions,
    )
    return RawBlock(block, b"".join((OPEN, entries, BETWEEN, places, CLOSE)))


def head_of(blocks: Sequence[Block]) -> bytes:
    """The head of a list of these blocks."""
    return TOP + join_lines(lines_of(blocks)) + END_OF_HEAD


def identity_of(blocks: Iterable[Block]) -> str:
    """The digest that stands for the names in these blocks and their content."""
    return blake3("".join(block.identity for block in blocks).encode()).hexdigest()


class Head:
    """The head of a list: where its blocks lie.

        0        offsets[0]          offsets[1]                           offsets[n]
        | head   | block 0           | block 1 …                          |
                 | OPEN entries BETWEEN places CLOSE |

    `offsets` are in bytes of the object, one more than there are blocks; `firsts` are the sort keys that blocks begin
    with. A name can only be in the last block whose first name is not after it.
    """

    def __init__(self, key: str, body: bytes) -> None:
        if not body.startswith(TOP) or not body.endswith(END_OF_HEAD):
            raise CorruptObject(key, f"`version` is not {VERSION}, or `index` or `blocks` is missing")
        self.blocks = _decoded(key, _decode_blocks, as_array(body[len(TOP) : -len(END_OF_HEAD)]), "index")
        if not self.blocks:
            raise CorruptObject(key, "`index` is empty")
        if not all(0 < block.entries <= MAX_BLOCK and 0 < block.places <= MAX_BLOCK for block in self.blocks):
            raise CorruptObject(key, f"`index`: a length is not between 1 and {MAX_BLOCK}")
        self.firsts = [sort_key(block.first) for block in self.blocks]
        if any(map(le, islice(self.firsts, 1, None), self.firsts)):
            raise CorruptObject(key, "`index`: blocks are not in order")
        self.offsets = list(accumulate((block.length for block in self.blocks), initial=len(body)))

    def around(self, names: NameRange) -> tuple[int, int]:
        """The blocks that can hold names of a range: the number of the first, and of the one after the last."""
        start = max(0, bisect_right(self.firsts, names.start) - 1)
        stop = len(self.firsts) if names.stop is None else bisect_left(self.firsts, names.stop)
        return start, max(start, stop)


def _decoded(key: str, decode: Callable[[bytes], T], array: bytes, field: str) -> T:
    try:
        return decode(array)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptObject(key, f"`{field}`: {error}") from error
