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

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from datamon.ids import SplitId
from datamon.model import Entry
from datamon.names import NameRange, ancestors, below, is_below, just, order

Rank = tuple[int, str]


class Version(msgspec.Struct, frozen=True, gc=False):
    """What one split holds under a name."""

    entry: Entry
    split: SplitId
    rank: int
    packs: Sequence[str] = ()  # the table that entry.at points into

    @property
    def strength(self) -> Rank:
        """What versions are compared by. Total, because a split holds a name once."""
        return self.rank, self.split


@dataclass(frozen=True, slots=True)
class Settled:
    """One name after the rules: at most one winner, and the versions that lost and differ, by split.

    Without a winner, a file or folder of the split `overruled_by` takes the place.
    """

    winner: Version | None
    conflicts: tuple[Version, ...] = ()
    overruled_by: SplitId | None = None


Reader = Callable[[NameRange], Iterable[Version]]
"""Gives the versions of all splits in a range of names, in name order."""


def settle(versions: Collection[Version]) -> Settled:
    """Settle one name: the greatest (rank, split) wins, and what differs from it is a conflict.

    Looks at all versions at once. A "best so far" depends on arrival: of x@1, y@2, x@3 it can
    drop x@3 as a repeat of x@1 and then let y win.
    """
    winner = max(versions, key=lambda v: v.strength)
    conflicts = sorted((v for v in versions if v.entry.hash != winner.entry.hash), key=lambda v: v.split)
    return Settled(winner, tuple(conflicts))


def settle_range(names: NameRange, read: Reader) -> Iterator[Settled]:
    """Settle every name of a range, in name order.

    A name is compared with what lies below it and with the files above it, wherever the range is cut: what is
    above the range's first name is looked up, and what is below its last one too.
    """
    shade = _shade_over(names.start, read)  # a file that won against its folder: nothing below it survives
    groups = ((key, settle(list(versions))) for key, versions in groupby(read(names), lambda v: order(v.entry.name)))
    current = next(groups, None)
    while current is not None:
        following = next(groups, None)
        key, settled = current
        if shade is not None and is_below(key, shade.key):
            yield _overruled(settled, shade.split)
        elif following is not None and not is_below(following[0], key):
            shade = None
            yield settled
        else:  # there is something below, or the range ends here and there may be
            shade, outcome = _against_folder(key, settled, read)
            yield outcome
        current = following


@dataclass(frozen=True, slots=True)
class _Shade:
    """A file that won against the folder of its name."""

    key: str
    split: SplitId


def _shade_over(start: str, read: Reader) -> _Shade | None:
    for above in ancestors(start):
        versions = list(read(just(above)))
        if versions:
            shade, _ = _against_folder(above, settle(versions), read)
            if shade is not None:
                return shade
    return None


def _against_folder(key: str, settled: Settled, read: Reader) -> tuple[_Shade | None, Settled]:
    """Settle a file against the folder of the same name: what shades the names below it, and what it becomes."""
    if settled.winner is None:
        return None, settled
    strongest = max((v.strength for v in read(below(key))), default=None)
    if strongest is None:
        return None, settled
    if settled.winner.strength > strongest:
        return _Shade(key, settled.winner.split), settled
    return None, _overruled(settled, SplitId(strongest[1]))


def _overruled(settled: Settled, by: SplitId) -> Settled:
    """The same versions when another name takes the place: the would-be winner is one more conflict."""
    if settled.winner is None:
        return settled
    return Settled(None, tuple(sorted((settled.winner, *settled.conflicts), key=lambda v: v.split)), by)
