"""How two bundles of a repo differ.

Lists that both have, byte for byte, hold nothing that differs, and stay closed. The others are read side by side, in
name order, one list of each bundle at a time; but those of what lost, which overlap, together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from datamon.download import bundle_entries
from datamon.model import Bundle, Entry
from datamon.names import EVERYTHING, NameRange, order
from datamon.stores import Context


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


def diff(context: Context, before: Bundle, after: Bundle, names: NameRange = EVERYTHING) -> Iterator[Difference]:
    """The names whose content or mode differs, in name order."""
    same = {info.digest for info in before.lists} & {info.digest for info in after.lists}
    for was, now in _side_by_side(
        bundle_entries(context, before, names, skipping=same), bundle_entries(context, after, names, skipping=same)
    ):
        if was is None and now is not None:
            yield Difference(now.name, Change.ADDED, None, now)
        elif now is None and was is not None:
            yield Difference(was.name, Change.REMOVED, was, None)
        elif was is not None and now is not None and (was.hash, was.mode) != (now.hash, now.mode):
            yield Difference(was.name, Change.CHANGED, was, now)


def _side_by_side(left: Iterator[Entry], right: Iterator[Entry]) -> Iterator[tuple[Entry | None, Entry | None]]:
    """Pairs of entries with one name; None where one side does not have it."""
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and order(a.name) < order(b.name)):
            yield a, None
            a = next(left, None)
        elif a is None or order(b.name) < order(a.name):
            yield None, b
            b = next(right, None)
        else:
            yield a, b
            a, b = next(left, None), next(right, None)
