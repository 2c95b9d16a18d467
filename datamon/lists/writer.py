"""Writing file lists: entries come in name order, and are cut into blocks and lists by a hash of their names.

What comes may be rows, blocks of other lists, or whole lists. A block is copied undecoded, and a list is referred to,
if the result is cut right before and right after it. Whether it is cut after it shows only when the next name comes. So
the last block or list is held back until then, and taken apart if the result is not cut there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from blake3 import blake3

from datamon.content.entry import Entry
from datamon.core.errors import Failed
from datamon.core.names import name_of, sort_key
from datamon.lists.cutting import USUAL, Cutting
from datamon.lists.format import (
    DELETED,
    Deletion,
    RawBlock,
    Rows,
    check_order,
    head_of,
    identity_of,
    make_block,
    no_rows,
    rows_of,
)
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef

BlockStarts = Iterable[tuple[int, bool]]
"""Positions of rows that begin blocks, and whether they also begin a list: what `Cutting.block_starts` gives."""


@dataclass(slots=True)
class _OpenList:
    """A list being written."""

    raws: list[RawBlock] = field(default_factory=list)
    count: int = 0

    def add(self, raw: RawBlock) -> None:
        self.raws.append(raw)
        self.count += raw.block.count

    def seal(self, index: str = "") -> tuple[bytes, ListRef]:
        """The list's bytes, and a reference to it. Only a list of an upload has an index."""
        blocks = [raw.block if index else raw.block.settled for raw in self.raws]
        head = head_of(blocks)
        reference = ListRef(
            digest=blake3(head).hexdigest(),
            identity=identity_of(blocks),
            count=self.count,
            bytes=sum(block.bytes for block in blocks),
            first=blocks[0].first,
            last=self.raws[-1].last,
            head=len(head),
            latest=max(block.latest for block in blocks),
            deletions=sum(block.deletions for block in blocks),
            index=index,
        )
        return b"".join((head, *(raw.stored for raw in self.raws))), reference


class _BlockWriter:
    """Cuts what comes into blocks, and says where a list begins."""

    def __init__(self, cutting: Cutting) -> None:
        self.cutting = cutting
        self._open = no_rows()  # of the block that is not complete yet
        self._held: RawBlock | None = None  # a copied block, until the next name shows that it ends there
        self._last = ""  # the last name that came
        self._last_deleted = False

    def move(self, rows: Rows, block_starts: BlockStarts | None = None) -> None:
        """Append rows of other lists as they are. The caller sees to it that they are in order among each other.

        A caller that knows which of them begin blocks saves hashing their names.
        """
        if not rows:
            return
        if block_starts is None:
            block_starts = self.cutting.block_starts(map(name_of, rows.keys))
        self._check_follows(rows.first)
        self._last, self._last_deleted = rows.last, rows.sizes[-1] == DELETED
        start = 0
        for position, starts_list in block_starts:
            self._extend(rows[start:position])
            self._end_block()
            if starts_list:
                self._end_list()
            start = position
        self._extend(rows[start:] if start else rows)

    def copy(self, raw: RawBlock) -> None:
        """Append a block of another list, without decoding it if the cut is the same."""
        first = raw.block.first
        self._check_follows(first)
        self._last = raw.last
        if self.cutting.starts_block(first):
            self._end_block()
            if self.cutting.starts_list(first):
                self._end_list()
        if self._open or self._held is not None:
            self._extend(raw.rows())
        else:
            self._held = raw

    def _check_follows(self, name: str) -> None:
        if self._last:
            check_order([sort_key(self._last), sort_key(name)], [self._last_deleted])

    def _extend(self, rows: Rows) -> None:
        """Add rows to the open block, which ends when it is full."""
        if self._held is not None and rows:  # the block that was held back goes on
            held, self._held = self._held, None
            rows = held.rows() + rows
        full = self.cutting.full_block
        while len(self._open) + len(rows) > full:
            room = full - len(self._open)
            self._open, rows = self._open + rows[:room], rows[room:]
            self._end_block()
        self._open = self._open + rows if self._open else rows

    def _end_block(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._take(held)
        elif self._open:
            rows, self._open = self._open, no_rows()
            self._take(self._make_block(rows))

    def _make_block(self, rows: Rows) -> RawBlock:
        return make_block(rows)

    def _take(self, raw: RawBlock) -> None:  # noqa: ARG002
        """Take a block that is complete."""
        raise AssertionError

    def _end_list(self) -> None:
        """Continue with a new list, because the next name begins one."""


class UploadListWriter(_BlockWriter):
    """Builds the one list of an upload task. It is cut into blocks only, and knows its latest timestamp."""

    def __init__(self, cutting: Cutting = USUAL) -> None:
        super().__init__(cutting)
        self._list = _OpenList()
        self._timestamps: list[int] = []  # of the rows of the open block, in order; 0 for deletions

    def __len__(self) -> int:
        return self._list.count + len(self._open)

    def add(self, *entries: Entry | Deletion) -> None:
        """Append entries. Names out of order, or below a name that is a file, are refused."""
        self._timestamps += (0 if isinstance(entry, Deletion) else entry.timestamp for entry in entries)
        self.move(rows_of(entries))

    def seal(self, index: str = "") -> tuple[bytes, ListRef]:
        """The list's bytes, and a reference to it. A list without entries is refused."""
        if not len(self):
            raise Failed("a file list without entries")
        self._end_block()
        return self._list.seal(index)

    def _make_block(self, rows: Rows) -> RawBlock:
        latest, deletions = max(self._timestamps[: len(rows)]), rows.sizes.count(DELETED)
        del self._timestamps[: len(rows)]
        return make_block(rows, latest, deletions)

    def _take(self, raw: RawBlock) -> None:
        self._list.add(raw)


class ListWriter(_BlockWriter):
    """Writes the lists of a bundle.

    `store` puts the bytes of a list where its reference says, and `open_list` opens a list that was referred to.
    """

    def __init__(
        self,
        store: Callable[[bytes, ListRef], None],
        open_list: Callable[[ListRef], FileList],
        cutting: Cutting = USUAL,
    ) -> None:
        super().__init__(cutting)
        self._store, self._open_list = store, open_list
        self._list = _OpenList()
        self._referred: ListRef | None = None  # until the next name shows that it ends there
        self._written: list[ListRef] = []

    def move(self, rows: Rows, block_starts: BlockStarts | None = None) -> None:
        """See _BlockWriter."""
        if rows:
            self._continue_referred(rows.first)
            super().move(rows, block_starts)

    def copy(self, raw: RawBlock) -> None:
        """Append a block of another list, without decoding it if the cut is the same."""
        self._continue_referred(raw.block.first)
        super().copy(raw)

    def refer(self, reference: ListRef) -> None:
        """Append a whole list of another bundle, without reading it if the cut is the same."""
        self._continue_referred(reference.first)
        if self._last and not self.cutting.starts_list(reference.first):
            self._take_apart(reference)
            return
        self._check_follows(reference.first)
        self._end_block()
        self._end_list()
        self._referred, self._last = reference, reference.last

    def finish(self) -> list[ListRef]:
        """Complete what is open. Returns references to all lists, in order."""
        self._end_block()
        self._end_list()
        return self._written

    def _continue_referred(self, following: str) -> None:
        """Take apart the list that was referred to last, if the name that follows does not begin another list."""
        reference = self._referred
        if reference is not None and not self.cutting.starts_list(following):
            self._referred, self._last = None, ""
            self._take_apart(reference)

    def _take_apart(self, reference: ListRef) -> None:
        """Append the blocks of a list that does not stay as it is."""
        for raw in self._open_list(reference).read_all():
            super().copy(raw)

    def _take(self, raw: RawBlock) -> None:
        if self._list.count >= self.cutting.full_list:
            self._seal()
        self._list.add(raw)

    def _end_list(self) -> None:
        if self._referred is not None:
            self._written.append(self._referred)
            self._referred = None
        elif self._list.count:
            self._seal()

    def _seal(self) -> None:
        done, self._list = self._list, _OpenList()
        body, reference = done.seal()
        self._store(body, reference)
        self._written.append(reference)
