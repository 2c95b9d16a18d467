"""The base of one range, with the changes laid over it.

The base is weaker than everything else. A file of the base is removed if the changes have a file of its name, a file in
the place of a folder above it, anything below it, or a deletion of it. A list that no change touches is referred to,
unread. In a list that is touched, every block that no change touches is copied undecoded. A list or block that is
deleted whole is not read either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from datamon.core.names import NameRange, ancestors, inside_folder, is_below, only_name, sort_key
from datamon.lists.format import Block, RawBlock, Rows, concatenated, no_rows
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.lists.writer import ListWriter
from datamon.merge.changes import Changes
from datamon.merge.ranges import united
from datamon.merge.rules import Settled
from datamon.merge.strips import Outcome

OpenList = Callable[[ListRef], FileList]


@dataclass(slots=True)
class Delta:
    """What the changes make of a range of names. Names are sort keys, in order."""

    rows: Rows  # the files that the changes leave there
    files: list[str]  # their names, and those of files that a later layer removed: the base made room for all of them
    touched: list[str]  # files, and names that are deleted
    folders: list[NameRange]  # where everything is deleted; they do not overlap
    contested: list[Settled]
    _files: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, changes: Changes) -> Delta:
        """All changes of a range."""
        above = {one.key for one in changes.covering.files}
        folders = [one.names for one in changes.covering.deletions]
        outcomes = [_outcome(piece) for piece in changes.settle()]
        rows = concatenated([outcome.rows for outcome in outcomes])
        files = sorted({*rows.keys, *(key for outcome in outcomes for key in outcome.ghosts)})
        return cls(
            rows=rows,
            files=files,
            touched=sorted({*files, *(key for outcome in outcomes for key in outcome.deleted)}),
            folders=united([*folders, *(names for outcome in outcomes for names in outcome.folders)]),
            contested=[settled for outcome in outcomes for settled in outcome.contested],
            _files={*files, *above},
        )

    @classmethod
    def of_files(cls, keys: Iterable[str]) -> Delta:
        """Files that take the place of others, but are kept in other lists themselves."""
        files = sorted(set(keys))
        return cls(no_rows(), files, files, [], [], set(files))

    def without_files(self) -> Delta:
        """What is removed from the base, without what comes in its place."""
        return replace(self, rows=no_rows())

    def touches(self, names: NameRange) -> bool:
        """Whether the changes may remove anything of the base in a range, or add anything to it."""
        start = bisect_left(self.touched, names.start)
        if start < len(self.touched) and names.holds(self.touched[start]):
            return True
        return self._is_below_file(names.start) or bool(self._folders_in(names))

    def removes(self, names: NameRange) -> bool:
        """Whether everything of the base in a range is removed, so that it need not be read."""
        return any(folder.contains(names) for folder in self._folders_in(names))

    def slice(self, names: NameRange) -> Rows:
        """The files that the changes leave in a range."""
        start, stop = _positions(self.rows.keys, names)
        return self.rows[start:stop]

    def surviving(self, rows: Rows, names: NameRange) -> Rows:
        """The rows of the base in a range that stay."""
        keys = rows.keys
        gone: set[int] = set()
        for folder in ancestors(names.start):
            if folder in self._files:
                gone.update(range(*_positions(keys, inside_folder(folder))))
        for folder_names in self._folders_in(names):
            gone.update(range(*_positions(keys, folder_names)))
        first, last = _positions(self.touched, names)
        for key in self.touched[first:last]:
            start, stop = _positions(keys, only_name(key))
            if key in self._files:
                stop = max(stop, _positions(keys, inside_folder(key))[1])
                start -= start > 0 and is_below(key, keys[start - 1])
            gone.update(range(start, stop))
        if not gone:
            return rows
        return rows.without(sorted(gone))

    def _is_below_file(self, key: str) -> bool:
        return any(folder in self._files for folder in ancestors(key))

    def _folders_in(self, names: NameRange) -> list[NameRange]:
        start = max(0, bisect_left(self.folders, names.start, key=lambda folder: folder.start) - 1)
        result: list[NameRange] = []
        for folder in self.folders[start:]:
            if names.stop is not None and folder.start >= names.stop:
                break
            if folder.stop is None or names.start < folder.stop:
                result.append(folder)
        return result


def _outcome(piece: RawBlock | Block | Outcome) -> Outcome:
    assert not isinstance(piece, Block), "blocks are left unread only with `only_look`"
    return Outcome(piece.rows()) if isinstance(piece, RawBlock) else piece


def _positions(keys: list[str], names: NameRange) -> tuple[int, int]:
    """Where the keys of a range stand among sorted ones."""
    start = bisect_left(keys, names.start)
    return start, len(keys) if names.stop is None else bisect_left(keys, names.stop, start)


def lay_over(base: Sequence[ListRef], delta: Delta, names: NameRange, open_list: OpenList, writer: ListWriter) -> None:
    """Write the lists of a range: those of the base, which come by first name, with the changes."""
    position = names.start
    for number, reference in enumerate(base):
        following = base[number + 1].start if number + 1 < len(base) else names.stop
        extent = NameRange(position, following)
        position = following or ""
        whole = names.start <= reference.start and (names.stop is None or reference.end <= names.stop)
        if delta.removes(extent):
            writer.move(delta.slice(extent))
        elif whole and not delta.touches(extent):
            writer.refer(reference)
        else:
            _lay_over_list(open_list(reference), delta, extent, writer)
    if not base:
        writer.move(delta.rows)


def _lay_over_list(listed: FileList, delta: Delta, extent: NameRange, writer: ListWriter) -> None:
    for names, raw, inside in _blocks(listed, delta, extent):
        if raw is None:
            writer.move(delta.slice(names))
        elif inside and not delta.touches(names):
            writer.copy(raw)
        else:
            writer.move(_in_order(delta.surviving(raw.rows(names), names), delta.slice(names)))


def _blocks(listed: FileList, delta: Delta, extent: NameRange) -> Iterator[tuple[NameRange, RawBlock | None, bool]]:
    """The blocks of a list in a range, each with the names it is responsible for and whether it lies inside.

    A block that is removed whole is not read. The others are read, those that follow each other at once.
    """
    firsts, last = listed.head.firsts, sort_key(listed.reference.last)
    start, stop = listed.head.around(extent)
    wanted: list[tuple[int, NameRange, bool]] = []
    for number in range(start, max(stop, start + 1)):
        begin = extent.start if number == start else firsts[number]
        end = firsts[number + 1] if number + 1 < stop else extent.stop
        ends_inside = number + 1 < stop or (stop == len(firsts) and (extent.stop is None or last < extent.stop))
        inside = firsts[number] >= extent.start and ends_inside
        wanted.append((number, NameRange(begin, end), inside))
    for removed, group in groupby(wanted, key=lambda one: delta.removes(one[1])):
        some = list(group)
        raws: Iterable[RawBlock | None] = [None] * len(some)
        if not removed:
            raws = listed.read_blocks(some[0][0], some[-1][0] + 1)
        yield from ((names, raw, inside) for (_, names, inside), raw in zip(some, raws, strict=True))


def _in_order(base: Rows, changes: Rows) -> Rows:
    """Two runs of rows without a name in common, merged in name order."""
    if not base or not changes:
        return base or changes
    both = base + changes
    return both.at(sorted(range(len(both)), key=both.keys.__getitem__))
