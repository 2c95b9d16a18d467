"""Peers and layers in one range of names, settled by the rules.

The whole range is read at once, and settled in strips of a few thousand lines: what is made of them stays in the
processor's caches, and its memory is used again for the next strip. A block that overlaps no block of another list is
handed on undecoded.

    list A   |-- block --|-- block --|-- block --|
    list B                     |-- block --|           |-- block --|
    pieces   copied      | strip | strip …       |     | copied    |
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

from datamon.core.concurrency import map_concurrently
from datamon.core.names import EVERYTHING, NameRange, ancestors, inside_folder, only_name, sort_key
from datamon.lists.format import (
    Block,
    RawBlock,
    Rows,
    no_rows,
    rows_of_blocks,
)
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.merge.inputs import MergeInput, MergeTask, Role
from datamon.merge.ranges import ListOfInput, Mark, clusters, cut_at
from datamon.merge.rules import (
    FolderDeletion,
    Strength,
    Version,
    deleted_folder,
    overruled,
    settle,
    with_folder_deletions,
)
from datamon.merge.strips import Cover, Covering, Outcome, Run, Strip, by_role
from datamon.stores.context import Context

Result = TypeVar("Result")


class _Cursor:
    """One list in a range of names, read from its beginning to its end."""

    def __init__(self, one: MergeInput, rank: int | None, listed: FileList, names: NameRange) -> None:
        self._one, self._rank, self._listed, self._names = one, rank, listed, names
        head = listed.head
        start, stop = head.around(names)
        self._first, self._stop = start, stop
        self.infos = head.blocks[start:stop]
        self.starts = head.firsts[start:stop]
        self.ends = [*head.firsts[start + 1 : stop + 1], listed.reference.end][: len(self.starts)]
        self._next = 0
        self._rest = no_rows()  # of blocks that were decoded already

    @cached_property
    def _raws(self) -> dict[int, RawBlock]:
        """The blocks by number. Whoever takes one removes it, so that its memory can be used again."""
        return dict(enumerate(self._listed.read_blocks(self._first, self._stop)))

    def read(self) -> _Cursor:
        """Read all of it at once."""
        assert self._raws is not None
        return self

    def blocks(self) -> Iterator[tuple[str, str, int, bool]]:
        """Where blocks start and end, how many entries they have, and whether they could be copied."""
        for block, start, end in zip(self.infos, self.starts, self.ends, strict=True):
            inside = start >= self._names.start and (self._names.stop is None or end <= self._names.stop)
            yield start, end, block.count, inside and not block.deletions

    def last_before(self) -> Rows:
        """The last row before the range, which is in the first block or nowhere; see FileList."""
        if self.starts[0] >= self._names.start:
            return no_rows()
        return self._raws[0].row_before(self._names.start)

    def take_block(self) -> RawBlock:
        """The next block, undecoded. Everything before it has been taken."""
        return self._raws.pop(self._skip())

    def take_info(self) -> Block:
        """What the head says about the next block, which is not read. Everything before it has been taken."""
        return self.infos[self._skip()]

    def _skip(self) -> int:
        assert not self._rest, "rows of the block before are still here"
        self._next += 1
        return self._next - 1

    def take(self, names: NameRange) -> Run | None:
        """The rows in a range of names. Everything before it has been taken."""
        stop = len(self.starts) if names.stop is None else bisect_left(self.starts, names.stop, self._next)
        firsts = self.starts[self._next : stop]
        pieces: list[Rows] = []
        if stop > self._next:  # a block begins in the range, so all that is left of the one before is in it
            pieces.append(self._rest)
            self._rest = self._decode(stop)
        end = len(self._rest) if names.stop is None else bisect_left(self._rest.keys, names.stop)
        pieces.append(self._rest[:end])
        self._rest = self._rest[end:]
        if not any(pieces):
            return None
        has_deletions = self._listed.reference.deletions > 0
        return Run(self._one.role, self._one.id, self._rank, self._listed.key, pieces, firsts, has_deletions)

    def _decode(self, stop: int) -> Rows:
        raws = [self._raws.pop(number) for number in range(self._next, stop)]
        extent = NameRange(self.starts[self._next], self.ends[stop - 1])
        self._next = stop
        return rows_of_blocks(raws, EVERYTHING if self._names.contains(extent) else self._names)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Names that some lists hold. With `is_block`, it is a block of one list alone, which can be copied."""

    names: NameRange
    cursors: list[_Cursor]
    is_block: bool = False


_Block = tuple[str, str, int, int, bool]
"""Where a block starts and ends, the number of its cursor, how many entries it has, and whether it could be copied."""


class Changes:
    """The peers and layers of a merge, in one range of names."""

    def __init__(self, task: MergeTask, names: NameRange, context: Context, *, only_look: bool = False) -> None:
        """With `only_look`, blocks that could be copied are not even read."""
        self._task, self._names, self._context, self._only_look = task, names, context, only_look
        self._lists = task.changes()
        self._strongest: dict[tuple[NameRange, Role], Strength | None] = {}
        met = [pair for pair in self._lists if pair[1].meets(names)]
        self._cursors = list(self._each(self._cursor, met))
        self._cursor_of = {
            (one.id, reference): cursor for (one, reference), cursor in zip(met, self._cursors, strict=True)
        }
        self.covering = self._covering_at(names.start)

    def settle(self) -> Iterator[RawBlock | Block | Outcome]:
        """Everything in the range, in name order. What is copied holds neither deletions nor conflicts."""
        has_layers = any(one.role is Role.LAYER for one in self._task.inputs)
        for piece in self._pieces():
            names = piece.names
            if piece.is_block and not self.covering.reaches(names.start):
                [alone] = piece.cursors
                yield alone.take_info() if self._only_look else alone.take_block()
                continue
            runs = [run for cursor in piece.cursors if (run := cursor.take(names)) is not None]
            strip = Strip(names, runs, self.covering, self.strongest, self._task.sizes.cutting, has_layers=has_layers)
            yield strip.settle()

    def strongest(self, folder: NameRange, role: Role) -> Strength | None:
        """The greatest strength of a file in a range of names, however large the range, among inputs of one role."""

        def strength(pair: ListOfInput) -> Strength | None:
            one, reference = pair
            rank = self._task.rank(one)
            if all(map(folder.holds, (reference.start, sort_key(reference.last)))) and not reference.deletions:
                return one.role, reference.latest if rank is None else rank, one.id
            latest = self._open(one, reference).latest(folder)
            return None if latest is None else (one.role, latest if rank is None else rank, one.id)

        if (folder, role) not in self._strongest:  # every strip below a folder asks for the same
            met = [pair for pair in self._lists if pair[0].role is role and pair[1].meets(folder)]
            strengths = self._each(strength, met)
            self._strongest[folder, role] = max((one for one in strengths if one is not None), default=None)
        return self._strongest[folder, role]

    def _open(self, one: MergeInput, reference: ListRef) -> FileList:
        return one.open(reference, self._context)

    def _cursor(self, pair: ListOfInput) -> _Cursor:
        one, reference = pair
        cursor = _Cursor(one, self._task.rank(one), self._open(one, reference), self._names)
        return cursor if self._only_look else cursor.read()

    def _each(self, work: Callable[[ListOfInput], Result], lists: list[ListOfInput]) -> Iterable[Result]:
        """Do some work that reads on each of these lists."""
        return map_concurrently(lists, work) if self._context.vmetadata.is_remote else map(work, lists)

    def _pieces(self) -> Iterator[_Piece]:
        """The range in pieces: blocks that lie alone, and between them strips of a few thousand entries."""
        blocks = sorted(
            (start, end, number, entries, copyable)
            for number, cursor in enumerate(self._cursors)
            for start, end, entries, copyable in cursor.blocks()
        )
        stretch: list[_Block] = []
        for cluster in clusters(blocks):
            start, end, number, _, copyable = cluster[0]
            if len(cluster) == 1 and copyable:
                yield from self._strips(stretch)
                stretch = []
                yield _Piece(NameRange(start, end), [self._cursors[number]], is_block=True)
            else:
                stretch += cluster
        yield from self._strips(stretch)

    def _strips(self, stretch: list[_Block]) -> Iterator[_Piece]:
        if not stretch:
            return
        first, last = max(self._names.start, stretch[0][0]), max(block[1] for block in stretch)
        if self._names.stop is not None:
            last = min(last, self._names.stop)
        cursors = [self._cursors[number] for number in sorted({block[2] for block in stretch})]
        marks: list[Mark] = sorted((block[0], block[3]) for block in stretch if block[0] >= first)
        strips = self._task.sizes.strips(sum(entries for _, entries in marks), len(cursors))
        yield from (_Piece(names, cursors) for names in cut_at(marks, NameRange(first, last), strips))

    def _covering_at(self, start: str) -> Covering:
        """The files and deletions of folders that reach over the beginning of the range.

        An input that holds a file above the beginning holds nothing below that file, so the file stands right before
        the range in its list. In a list with deletions, more than one entry may reach over it.
        """
        folders = list(ancestors(start))
        wanted = {"\0", *folders, *(f"{folder}\0" for folder in folders)}

        def look_up(pair: ListOfInput) -> list[tuple[str, Version]]:
            one, reference = pair
            listed, cursor = self._open(one, reference), self._cursor_of.get((one.id, reference))
            if reference.deletions:
                candidates = [listed.find(key) for key in wanted if reference.meets(only_name(key))]
            else:
                candidates = [cursor.last_before() if cursor is not None else listed.last_before(start)]
            run = Run(one.role, one.id, self._task.rank(one), listed.key, [], [])
            return [
                (key, run.version(rows.lines[0], rows.places[0]))
                for rows in candidates
                for key in wanted.intersection(rows.keys)
            ]

        near = [pair for pair in self._lists if _may_cover(pair[1], start, folders)]
        versions: dict[str, list[Version]] = {}
        for key, version in chain.from_iterable(self._each(look_up, near)):
            versions.setdefault(key, []).append(version)
        covering = Covering()
        for key, held in versions.items():
            if key.endswith("\0"):
                covering.deletions += (FolderDeletion(deleted_folder(key), version.strength) for version in held)
        covering.deletions.sort(key=lambda one: one.names.start)
        for folder in folders:
            self._cover(covering, folder, versions.get(folder, []))
        return covering

    def _cover(self, covering: Covering, folder: str, versions: list[Version]) -> None:
        """Take note of the files that stand where a folder above the range would be."""
        peers, layers = by_role(versions)
        files = [version for version in layers if not version.deleted]
        if peers:
            held = with_folder_deletions(peers, covering.deletions_of(folder, Role.PEER))
            settled = overruled(settle(held), covering.over(folder, Role.PEER))
            file = overruled(settled, self.strongest(inside_folder(folder), Role.PEER)).file
            files += [file] if file is not None else []
        covering.files += (Cover(folder, file.strength) for file in files)


def _may_cover(reference: ListRef, start: str, folders: list[str]) -> bool:
    """Whether a list may hold a file or the deletion of a folder above the beginning of a range."""
    if reference.start >= start:
        return False
    last = sort_key(reference.last)
    return bool(reference.deletions) or (bool(folders) and (last >= start or last in folders))
