"""The conflict rules: which version of a name wins, and what becomes of the others.

1. Of one name, the version with the greatest (rank, split) wins. The rank is the upload time, or the
   position of the add.
2. A losing version with the winner's content is dropped; any other is a conflict, kept under its own split.
3. A file against a folder of the same name (`x` and `x/y`): the side with the greatest (rank, split) wins,
   and what would have won on the other side is a conflict too.

The result is a function of the set of splits: it does not depend on the order they come in, nor on how the
names are cut into ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, compress, count, groupby, pairwise
from typing import Protocol

import msgspec

from datamon.filelist import Brief, Content, orders, read_content
from datamon.ids import SplitId
from datamon.names import NameRange, below, is_below, order

Rank = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Run:
    """What one list of a split holds in a range of names, in name order."""

    split: SplitId
    briefs: list[Brief]
    lines: list[bytes]
    rank: int | None = None  # of all of them; None if each has its own, the time of its upload
    key: str = ""  # of the list

    def strength(self, timestamp: int) -> Rank:
        """What an entry with this timestamp is compared by. Total, because a split holds a name once."""
        return timestamp if self.rank is None else self.rank, self.split


class Version(msgspec.Struct, frozen=True, gc=False):
    """What one split holds under a name."""

    entry: Content
    split: SplitId
    rank: int
    line: bytes

    @classmethod
    def of(cls, line: bytes, run: Run) -> Version:
        """What a line of a run says."""
        entry = read_content(run.key, line)
        return cls(entry, run.split, run.strength(entry.timestamp)[0], line)

    @property
    def strength(self) -> Rank:
        """What versions are compared by."""
        return self.rank, self.split


@dataclass(frozen=True, slots=True)
class Settled:
    """One name after the rules: at most one winner, and the versions that lost and differ, by split.

    Without a winner, a file or folder of the split `overruled_by` takes the place.
    """

    winner: Version | None
    conflicts: tuple[Version, ...] = ()
    overruled_by: SplitId | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A range of names after the rules: what won, in name order, and the names of which versions lost and differ."""

    briefs: list[Brief]
    lines: list[bytes]
    contested: list[Settled]


class Reader(Protocol):
    """Gives what the splits hold."""

    def runs(self, names: NameRange) -> list[Run]:
        """Everything in a range of names."""
        ...

    def above(self, key: str) -> list[Version]:
        """The files that stand where this order key needs a folder, in name order."""
        ...

    def strongest(self, names: NameRange) -> Rank | None:
        """The greatest strength in a range of names, however large that is."""
        ...


def settle(versions: Collection[Version]) -> Settled:
    """Settle one name: the greatest (rank, split) wins, and what differs from it is a conflict.

    Looks at all versions at once. A "best so far" depends on arrival: of x@1, y@2, x@3 it can
    drop x@3 as a repeat of x@1 and then let y win.
    """
    winner = max(versions, key=lambda v: v.strength)
    conflicts = sorted((v for v in versions if v.entry.hash != winner.entry.hash), key=lambda v: v.split)
    return Settled(winner, tuple(conflicts))


def settle_range(names: NameRange, reader: Reader) -> Outcome:
    """Settle every name of a range.

    A name is compared with what lies below it and with the files above it, wherever the range is cut: what is
    above the range's first name is looked up, and what is below its last one too.
    """
    held = _Held(names, reader)
    done = held.overrule(0, held.shade_over_start())
    for place in held.contested():
        if place >= done:
            done = held.overrule(*held.settle(place))
    return held.outcome()


@dataclass(frozen=True, slots=True)
class _Shade:
    """A file that won against the folder of its name: nothing below it survives."""

    key: str
    split: SplitId


class _Held:
    """All that the splits hold in a range, as columns in name order. Most of it is never looked at one by one.

    Where a name is the same as the one before or lies below it, it also starts like it; so all that may be contested
    is found by one comparison a name, which Python makes in C.
    """

    def __init__(self, names: NameRange, reader: Reader) -> None:
        self._names, self._reader = names, reader
        self._runs = runs = reader.runs(names)
        self._ends = list(accumulate(len(run.lines) for run in runs))
        briefs = list(chain.from_iterable(run.briefs for run in runs))
        lines = list(chain.from_iterable(run.lines for run in runs))
        keys = orders(briefs)
        self._places = places = sorted(range(len(keys)), key=keys.__getitem__)  # runs are sorted, so this merges them
        self._briefs = list(map(briefs.__getitem__, places))
        self._lines = list(map(lines.__getitem__, places))
        self._keys = list(map(keys.__getitem__, places))
        self._settled: list[Settled] = []
        self._lost: list[int] = []  # places, in order
        self._following = self._keys[1:] + ([] if names.stop is None else [names.stop])

    def contested(self) -> Iterator[int]:
        """Where there are more versions of a name, or something below it, here or behind the range."""
        alike = compress(count(), map(str.startswith, self._following, self._keys))
        return filter(self._is_contested, alike)

    def _is_contested(self, place: int) -> bool:
        key, following = self._keys[place], self._following[place]
        return key == following or is_below(following, key)

    def settle(self, start: int) -> tuple[int, _Shade | None]:
        """Settle the name at a place, with what lies below it; gives the next place, and what shades it."""
        versions, stop = self._versions_at(start)
        shade, settled = self._against_folder(self._keys[start], settle(versions), stop)
        self._note(settled, versions, start)
        return stop, shade

    def overrule(self, start: int, shade: _Shade | None) -> int:
        """Overrule the names from a place on that lie in a shade; gives the place of the first that does not."""
        while shade is not None and start < len(self._keys) and is_below(self._keys[start], shade.key):
            versions, stop = self._versions_at(start)
            self._note(_overruled(settle(versions), shade.split), versions, start)
            start = stop
        return start

    def outcome(self) -> Outcome:
        """What there is when all is settled."""
        if not self._lost:
            return Outcome(self._briefs, self._lines, self._settled)
        briefs: list[Brief] = []
        lines: list[bytes] = []
        for start, stop in pairwise([-1, *self._lost, len(self._lines)]):
            briefs += self._briefs[start + 1 : stop]
            lines += self._lines[start + 1 : stop]
        return Outcome(briefs, lines, self._settled)

    def _note(self, settled: Settled, versions: list[Version], start: int) -> None:
        if settled.conflicts:
            self._settled.append(settled)
        self._lost += (start + at for at, version in enumerate(versions) if version is not settled.winner)

    def _next(self, place: int) -> str:
        """The name at a place; behind the last one, that at which the range was cut."""
        return self._following[place - 1] if place <= len(self._following) else ""

    def _versions_at(self, start: int) -> tuple[list[Version], int]:
        """The versions of the name at a place, and the place of the next name."""
        key, stop = self._keys[start], start + 1
        while stop < len(self._keys) and self._keys[stop] == key:
            stop += 1
        return self._versions(start, stop), stop

    def _against_folder(self, key: str, settled: Settled, following: int) -> tuple[_Shade | None, Settled]:
        """Settle a file against the folder of its name, which would begin at the place that follows."""
        if not is_below(self._next(following), key):
            return None, settled
        folder = below(key)
        if self._names.stop is None or (folder.stop is not None and folder.stop <= self._names.stop):
            inside = range(following, bisect_left(self._keys, folder.stop or "", following))
            return _against(key, settled, max(map(self._strength, inside), default=None))
        return _against(key, settled, self._reader.strongest(folder))

    def shade_over_start(self) -> _Shade | None:
        """What the beginning of the range may lie below."""
        for key, versions in groupby(self._reader.above(self._names.start), lambda version: order(version.entry.name)):
            shade, _ = _against(key, settle(list(versions)), self._reader.strongest(below(key)))
            if shade is not None:
                return shade
        return None

    def _versions(self, start: int, stop: int) -> list[Version]:
        return [Version.of(self._lines[place], self._run(place)) for place in range(start, stop)]

    def _strength(self, place: int) -> Rank:
        return self._run(place).strength(self._briefs[place].timestamp)

    def _run(self, place: int) -> Run:
        return self._runs[bisect_right(self._ends, self._places[place])]


def _against(key: str, settled: Settled, strongest: Rank | None) -> tuple[_Shade | None, Settled]:
    """A file against the strongest of what lies below it: what shades that, and what the file becomes."""
    if settled.winner is None or strongest is None:
        return None, settled
    if settled.winner.strength > strongest:
        return _Shade(key, settled.winner.split), settled
    return None, _overruled(settled, SplitId(strongest[1]))


def _overruled(settled: Settled, by: SplitId) -> Settled:
    """The same versions when another name takes the place: the would-be winner is one more conflict."""
    if settled.winner is None:
        return settled
    return Settled(None, tuple(sorted((settled.winner, *settled.conflicts), key=lambda v: v.split)), by)
