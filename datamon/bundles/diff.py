"""How two bundles differ.

Lists with the same identity hold nothing that differs, and stay closed; where those lie does not matter, because a name
is in one list of a bundle only. Of the others, blocks with the same identity are passed over unread. The rest is read
side by side, in name order, one list of each bundle at a time; but lists of what lost, which overlap, together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from datamon.bundles.reader import BundleReader, Lists, Skipping, only_files
from datamon.content.entry import Entry
from datamon.core.names import EVERYTHING, NameRange, sort_key
from datamon.lists.reference import ListRef


class Change(StrEnum):
    """What happened to a name."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A name that is not the same in two bundles."""

    name: str
    change: Change
    before: Entry | None
    after: Entry | None

    @property
    def sides(self) -> dict[str, Entry]:
        """The entries there are."""
        return {name: entry for name, entry in (("before", self.before), ("after", self.after)) if entry is not None}


def diff(before: BundleReader, after: BundleReader, names: NameRange = EVERYTHING) -> Iterator[Difference]:
    """The names whose content or mode differs, in name order."""
    if before.overlay or after.overlay:  # what lies over a list may hide some of it
        left, right = before.entries(names), after.entries(names)
    else:
        same = {one.identity for one in before.bundle.lists} & {one.identity for one in after.bundle.lists}
        old, new = (_without(reader.lists, same) for reader in (before, after))
        left, right = (only_files(a.entries(names, _blocks_in(b))) for a, b in ((old, new), (new, old)))
    for was, now in _side_by_side(left, right):
        if was is None and now is not None:
            yield Difference(now.name, Change.ADDED, None, now)
        elif now is None and was is not None:
            yield Difference(was.name, Change.REMOVED, was, None)
        elif was is not None and now is not None and (was.hash, was.mode) != (now.hash, now.mode):
            yield Difference(was.name, Change.CHANGED, was, now)


def _without(lists: Lists, identities: Collection[str]) -> Lists:
    return replace(lists, references=[one for one in lists.references if one.identity not in identities])


def _blocks_in(others: Lists) -> Skipping:
    """Which blocks of a list are in other lists too. A block with the same identity holds the same names."""
    won = [one for one in others.references if not one.lost]
    starts = [one.start for one in won]

    def blocks(reference: ListRef) -> set[str]:
        if reference.lost:  # such lists overlap, so there may be many around one
            return set()
        around = won[max(0, bisect_right(starts, reference.start) - 1) : bisect_left(starts, reference.end)]
        return {block.identity for one in around for block in others.open(one).head.blocks}

    return blocks


def _side_by_side(left: Iterator[Entry], right: Iterator[Entry]) -> Iterator[tuple[Entry | None, Entry | None]]:
    """Pairs of entries with one name; None where one side does not have it."""
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and sort_key(a.name) < sort_key(b.name)):
            yield a, None
            a = next(left, None)
        elif a is None or sort_key(b.name) < sort_key(a.name):
            yield None, b
            b = next(right, None)
        else:
            yield a, b
            a, b = next(left, None), next(right, None)
