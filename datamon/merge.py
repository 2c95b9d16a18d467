"""The conflict rules: which version of a name wins, and what becomes of the others.

1. Of one name, the version with the greatest (rank, split) wins. The rank is the upload time, or the
   position of the add.
2. A losing version with the winner's content is dropped; any other is a conflict, kept under its own split.
3. A file against a folder of the same name (`x` and `x/y`): the side with the greatest (rank, split) wins
   and every version of the other side is a conflict.

The result is a function of the set of splits: it does not depend on the order they come in, nor on how the
names are cut into ranges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from typing import Protocol

import msgspec

from datamon.ids import SplitId
from datamon.model import Entry
from datamon.names import NameRange, below, is_below, order

Rank = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Run:
    """What one list of a split holds in a range of names, in name order."""

    split: SplitId
    entries: list[Entry]
    packs: Sequence[str] = ()  # the table that their `at` points into
    rank: int | None = None  # of all of them; None if each has its own, the time of its upload


class Version(msgspec.Struct, frozen=True, gc=False):
    """What one split holds under a name."""

    entry: Entry
    split: SplitId
    rank: int
    packs: Sequence[str] = ()

    @classmethod
    def of(cls, entry: Entry, run: Run) -> Version:
        """An entry of a run."""
        return cls(entry, run.split, entry.timestamp if run.rank is None else run.rank, run.packs)

    @property
    def strength(self) -> Rank:
        """What versions are compared by. Total, because a split holds a name once."""
        return self.rank, self.split


@dataclass(frozen=True, slots=True)
class Uncontested:
    """Files whose names concern one split only, in name order, each with the run it is from."""

    entries: list[Entry]
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Settled:
    """One name after the rules: at most one winner, and the versions that lost and differ, by split.

    Without a winner, a file or folder of the split `overruled_by` takes the place.
    """

    winner: Version | None
    conflicts: tuple[Version, ...] = ()
    overruled_by: SplitId | None = None


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


def settle_range(names: NameRange, reader: Reader) -> Iterator[Uncontested | Settled]:
    """Settle every name of a range, in name order.

    A name is compared with what lies below it and with the files above it, wherever the range is cut: what is
    above the range's first name is looked up, and what is below its last one too.
    """
    held = _Held(names, reader)
    done = yield from held.overruled(0, held.shade_over_start())
    for place in held.contested():
        if place < done:
            continue
        if place > done:
            yield held.uncontested(done, place)
        key, settled, done = held.settled(place)
        shade, settled = held.against_folder(key, settled, done)
        yield settled
        done = yield from held.overruled(done, shade)
    if done < len(held):
        yield held.uncontested(done, len(held))


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
        runs = reader.runs(names)
        entries = list(chain.from_iterable(run.entries for run in runs))
        owners = list(chain.from_iterable(repeat(run, len(run.entries)) for run in runs))
        keys = [order(entry.name) for entry in entries]
        places = sorted(range(len(keys)), key=keys.__getitem__)  # runs are sorted, so this merges them
        self._entries = list(map(entries.__getitem__, places))
        self._owners = list(map(owners.__getitem__, places))
        self._keys = list(map(keys.__getitem__, places))
        self._following = self._keys[1:] + ([] if names.stop is None else [names.stop])

    def __len__(self) -> int:
        return len(self._keys)

    def contested(self) -> Iterator[int]:
        """Where there are more versions of a name, or something below it, here or behind the range."""
        alike = map(str.startswith, self._following, self._keys)
        return (place for place, is_alike in enumerate(alike) if is_alike and self.is_contested(place))

    def is_contested(self, place: int) -> bool:
        """Whether what follows is the same name, or something below it."""
        key, following = self._keys[place], self._following[place]
        return key == following or is_below(following, key)

    def uncontested(self, start: int, stop: int) -> Uncontested:
        """What lies between contested names."""
        return Uncontested(self._entries[start:stop], self._owners[start:stop])

    def settled(self, start: int) -> tuple[str, Settled, int]:
        """The name at a place, what its versions came to, and the place of the next one."""
        key, stop = self._keys[start], start + 1
        while stop < len(self) and self._keys[stop] == key:
            stop += 1
        return key, settle(self._versions(start, stop)), stop

    def overruled(self, start: int, shade: _Shade | None) -> Generator[Settled, None, int]:
        """What becomes of the names from a place on that lie in a shade; and the place of the first that does not."""
        while shade is not None and start < len(self) and is_below(self._keys[start], shade.key):
            _, settled, start = self.settled(start)
            yield _overruled(settled, shade.split)
        return start

    def against_folder(self, key: str, settled: Settled, following: int) -> tuple[_Shade | None, Settled]:
        """Settle a file against the folder of its name, which would begin at the place that follows."""
        folder = below(key)
        if self._names.stop is None or (folder.stop is not None and folder.stop <= self._names.stop):
            inside = self._versions(following, bisect_left(self._keys, folder.stop or "", following))
            return _against(key, settled, max((version.strength for version in inside), default=None))
        return _against(key, settled, self._reader.strongest(folder))

    def shade_over_start(self) -> _Shade | None:
        """What the beginning of the range may lie below."""
        for key, versions in groupby(self._reader.above(self._names.start), lambda version: order(version.entry.name)):
            shade, _ = _against(key, settle(list(versions)), self._reader.strongest(below(key)))
            if shade is not None:
                return shade
        return None

    def _versions(self, start: int, stop: int) -> list[Version]:
        return list(map(Version.of, self._entries[start:stop], self._owners[start:stop]))


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
