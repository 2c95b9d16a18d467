"""Reading file lists. Only what is asked for is read, and all of that is verified."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Self

from blake3 import blake3

from datamon.content.entry import Entry
from datamon.core.errors import CorruptObject
from datamon.core.names import EVERYTHING, NameRange, only_name
from datamon.lists.format import (
    DELETED,
    END_OF_HEAD,
    MAX_HEAD,
    Deletion,
    Head,
    RawBlock,
    Rows,
    check_digest,
    decode_timestamp,
    entries_of_blocks,
    identity_of,
    no_rows,
    rows_of_blocks,
)
from datamon.lists.reference import ListRef
from datamon.stores.protocol import ObjectStore

DECODED_BLOCKS = 4  # at once: if a whole list is decoded at once, an entry takes half as long again
SMALL_GAP = 8  # blocks, some 600 kB: reading them for nothing takes no longer than another request
RECENT_HEADS = 128  # that a process remembers, at most 100 kB each

Get = Callable[[int, int | None], bytes]
"""Reads bytes of an object: from where, and how many."""

_recent: dict[str, Head] = {}  # by digest: the tasks of one process open the same lists again and again


def _remember(digest: str, head: Head) -> None:
    if len(_recent) >= RECENT_HEADS:
        _recent.clear()  # simple, and safe on many threads
    _recent[digest] = head


class FileList:
    """A file list, and the reference that vouches for its bytes."""

    def __init__(self, key: str, reference: ListRef, get: Get) -> None:
        self.key, self.reference, self._get = key, reference, get
        self._head: Head | None = None

    @classmethod
    def stored(cls, store: ObjectStore, key: str, reference: ListRef) -> Self:
        """A list in a store."""
        return cls(key, reference, lambda start, length: store.get(key, start, length))

    @classmethod
    def in_memory(cls, key: str, reference: ListRef, body: bytes) -> Self:
        """A list whose bytes are in memory."""
        return cls(key, reference, lambda start, length: body[start : None if length is None else start + length])

    @property
    def head(self) -> Head:
        """What stands before the blocks."""
        if self._head is None:
            self._head = _recent.get(self.reference.digest) or self._read_head()
        return self._head

    def entries(
        self, names: NameRange = EVERYTHING, skipping: Collection[str] = (), *, gradually: bool = False
    ) -> Iterator[Entry | Deletion]:
        """The entries in a range of names, in order. Blocks whose identity is in `skipping` are left out.

        All blocks are read at once or, for callers that may need only the first entries, gradually: one block at first,
        and then twice as many each time. Either way, a few blocks at a time are decoded, so that their entries stay in
        the processor's caches and their memory is used again for the next ones.
        """
        blocks = self.head.blocks
        wanted = [number for number in range(*self.head.around(names)) if blocks[number].identity not in skipping]
        for numbers in _read_together(wanted, 1 if gradually else len(wanted)):
            body = self._read_span(numbers[0], numbers[-1] + 1)
            for position in range(0, len(numbers), DECODED_BLOCKS):
                raws = self._verified(body, numbers[position : position + DECODED_BLOCKS], base=numbers[0])
                yield from entries_of_blocks(raws, names)

    def rows(self, names: NameRange = EVERYTHING) -> Rows:
        """The entries in a range of names, as rows."""
        return rows_of_blocks(self.read_blocks(*self.head.around(names)), names)

    def latest(self, names: NameRange) -> int | None:
        """The greatest timestamp of a file in a range of names. For blocks inside the range, the head has it."""
        start, stop = self.head.around(names)
        if start >= stop:
            return None
        inside = [block.latest for block in self.head.blocks[start + 1 : stop - 1] if block.count > block.deletions]
        for number in {start, stop - 1}:
            for raw in self.read_blocks(number, number + 1):
                rows = raw.rows(names)
                files = (place for size, place in zip(rows.sizes, rows.places, strict=True) if size != DELETED)
                inside += (decode_timestamp(self.key, place) for place in files)
        return max(inside, default=None)

    def find(self, key: str) -> Rows:
        """The row with a sort key, if there is one."""
        return self.rows(only_name(key))

    def last_before(self, key: str) -> Rows:
        """The last row before a sort key; none if the list holds the key itself, or nothing before it."""
        number = bisect_left(self.head.firsts, key)
        if number == 0 or key in self.head.firsts[number : number + 1]:
            return no_rows()
        [raw] = self.read_blocks(number - 1, number)
        return raw.row_before(key)

    def read_blocks(self, start: int, stop: int) -> list[RawBlock]:
        """Some blocks as they are stored, verified. They are read at once."""
        return self._verified(self._read_span(start, stop), range(start, stop), base=start) if start < stop else []

    def _read_span(self, start: int, stop: int) -> bytes:
        """The bytes of some blocks, not verified yet."""
        offsets = self.head.offsets
        return self._get(offsets[start], offsets[stop] - offsets[start])

    def read_all(self) -> list[RawBlock]:
        """All blocks, after every byte of the list has been verified."""
        body = self._get(0, None)
        self._head = self._parse_head(body[: self.reference.head])
        end = self.head.offsets[-1]
        if len(body) != end:
            raise CorruptObject(self.key, f"it has {len(body)} bytes, and its head says {end}")
        return self._verified(body[self.head.offsets[0] :], range(len(self.head.blocks)), base=0)

    def _verified(self, body: bytes, numbers: Iterable[int], base: int) -> list[RawBlock]:
        """Blocks by their numbers, out of bytes that begin with the block `base`."""
        blocks, offsets = self.head.blocks, self.head.offsets
        raws = [RawBlock(blocks[number], body, offsets[number] - offsets[base], self.key) for number in numbers]
        for raw in raws:
            raw.check()
        return raws

    def _read_head(self) -> Head:
        if not 0 < self.reference.head <= MAX_HEAD:
            raise CorruptObject(self.key, f"its descriptor says that its head has {self.reference.head} bytes")
        return self._parse_head(self._get(0, self.reference.head))

    def _parse_head(self, body: bytes) -> Head:
        check_digest(self.key, body, self.reference.digest)
        head = Head(self.key, body)
        if self.reference.identity and self.reference.identity != identity_of(head.blocks):
            raise CorruptObject(self.key, "its entries are not those of the identity in its descriptor")
        _remember(self.reference.digest, head)
        return head


def _read_together(numbers: Iterable[int], most: int) -> Iterator[list[int]]:
    """Group the wanted blocks by what is read at once: `most` of them at first, and then twice as many each time."""
    group: list[int] = []
    for number in numbers:
        if group and (len(group) >= most or number - group[-1] > SMALL_GAP):
            yield group
            group, most = [], 2 * most
        group.append(number)
    if group:
        yield group


def read_reference(key: str, body: bytes, index: str = "") -> ListRef:
    """A reference to a list, made from the whole list itself."""
    head = body[: body.find(END_OF_HEAD) + len(END_OF_HEAD)]
    known = ListRef(blake3(head).hexdigest(), "", 0, 0, "", "", len(head), index=index)
    listed = FileList.in_memory(key, known, body)
    raws = listed.read_all()
    blocks = listed.head.blocks
    return replace(
        known,
        identity=identity_of(blocks),
        count=sum(block.count for block in blocks),
        bytes=sum(block.bytes for block in blocks),
        first=blocks[0].first,
        last=raws[-1].last,
        latest=max(block.latest for block in blocks),
        deletions=sum(block.deletions for block in blocks),
    )
