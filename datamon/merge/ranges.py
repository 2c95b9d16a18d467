"""Cutting the names of a merge into ranges: the work of one task each.

    base lists   |a---------|f---------|m---------|t---------|
    changes           d--e     g-----------n  o-p
    touched           x          x          x
    work         |- task ---|- task ---|- task ---|  t is referred to, and never read

Ranges are cut at names that lists of the result begin with, so that the cuts do not show in the result; where that is
not possible, lists are joined afterwards (`kernel.seams`). All ranges have about the same number of entries, however
unevenly names are spread. The cuts depend only on what is merged: whoever takes over must cut at the same names, and so
write the same lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Protocol, TypeVar

from datamon.core.concurrency import map_concurrently
from datamon.core.names import NameRange, name_of, sort_key
from datamon.lists.cutting import Cutting
from datamon.lists.format import Block
from datamon.lists.reference import ListRef
from datamon.merge.inputs import MergeInput, MergeTask, Sizes

FEW_RANGES = 4  # that a small merge is spread over
MAX_RANGES = 10_000
MAX_MARKS = 1_000_000
LARGEST = 4  # a range of so many times its share is cut anywhere: somebody may choose names that begin no list
COPIED = 3  # copying an entry is at least so many times as fast as settling it
LARGE = 1.25  # in the place of LARGEST where hardly any mark begins a list, as with many small lists

Mark = tuple[str, int]
"""(sort key, about how many entries a list has from there on up to its next mark, or what they cost)"""

ListOfInput = tuple[MergeInput, ListRef]
BlocksOf = Callable[[ListOfInput], Sequence[Block]]


@dataclass(frozen=True, slots=True)
class Part:
    """The work of one merge task: a range of names or, with `lost`, a list of the base with versions that lost."""

    names: NameRange
    lost: ListRef | None = None
    cost: int = field(default=0, compare=False)  # about how many entries must be settled there


Work = Part | ListRef
"""A task, or a list of the base that nothing touches: the bundle refers to it."""


def plan_merge(task: MergeTask, blocks_of: BlocksOf, is_below_base_file: Callable[[str], bool]) -> list[Work]:
    """The work of a merge, in name order.

    No range is cut below a file of the base: the task that sees what lies below the file decides what becomes of it.
    """
    changes = task.changes()
    base = sorted((one for one in task.base if not one.lost), key=lambda one: one.start)
    lost = [one for one in task.base if one.lost]
    touched = united(_reach(reference) for _, reference in changes)
    work: list[Work] = []
    stretches = list(_stretches(base, touched))
    held_by = _assigned(changes, [names for names, _ in stretches if names is not None])
    for names, lists in stretches:
        if names is None:
            work += lists
        else:
            held = held_by[names.start]
            work += _cut_stretch(task, names, lists, held, blocks_of, is_below_base_file)
    return work + [Part(_span(one), one, one.count) if _meets_any(_span(one), touched) else one for one in lost]


def _assigned(changes: list[ListOfInput], stretches: list[NameRange]) -> dict[str, list[ListOfInput]]:
    """The lists that hold names of each stretch, by its start. Stretches are in order and do not overlap."""
    starts = [names.start for names in stretches]
    held: dict[str, list[ListOfInput]] = {start: [] for start in starts}
    for pair in changes:
        number = max(0, bisect_right(starts, pair[1].start) - 1)
        while number < len(stretches) and (stretches[number].start <= sort_key(pair[1].last)):
            if pair[1].meets(stretches[number]):
                held[starts[number]].append(pair)
            number += 1
    return held


def _reach(reference: ListRef) -> NameRange:
    """The names that a list may change, those it deletes included.

    If the deletion of a folder reaches beyond the last name, the folder is above that name.
    """
    if not reference.deletions:
        return _span(reference)
    if reference.first == "/":
        return NameRange()
    return NameRange(reference.start, max(reference.end, sort_key(reference.last).partition("\0")[0] + "\1"))


def _span(reference: ListRef) -> NameRange:
    return NameRange(reference.start, reference.end)


def _meets_any(names: NameRange, united: list[NameRange]) -> bool:
    """Whether a range overlaps any of several that are in order and do not overlap each other."""
    after = len(united) if names.stop is None else bisect_left(united, names.stop, key=lambda one: one.start)
    return after > 0 and _overlap(names, united[after - 1])


def _overlap(one: NameRange, other: NameRange) -> bool:
    return (one.stop is None or other.start < one.stop) and (other.stop is None or one.start < other.stop)


def _stretches(base: list[ListRef], touched: list[NameRange]) -> Iterator[tuple[NameRange | None, list[ListRef]]]:
    """Names that are to be merged, with the lists of the base there; and lists that nothing touches, without names.

    A list of the base is responsible for all names from its first up to that of the next list.
    """
    if not base:
        if touched:
            yield NameRange(min(names.start for names in touched), None), []
        return
    starts = ["", *(one.start for one in base[1:])]
    extents = [NameRange(start, stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    together: list[tuple[NameRange, ListRef]] = []
    for extent, reference in zip(extents, base, strict=True):
        if _meets_any(extent, touched):
            together.append((extent, reference))
            continue
        yield from _as_one(together)
        together = []
        yield None, [reference]
    yield from _as_one(together)


def _as_one(together: list[tuple[NameRange, ListRef]]) -> Iterator[tuple[NameRange | None, list[ListRef]]]:
    if together:
        yield NameRange(together[0][0].start, together[-1][0].stop), [reference for _, reference in together]


def united(ranges: Iterable[NameRange]) -> list[NameRange]:
    """The same names as the fewest ranges."""
    united: list[NameRange] = []
    for names in sorted(ranges, key=lambda one: one.start):
        if united and (united[-1].stop is None or names.start <= united[-1].stop):
            last = united[-1]
            stop = None if last.stop is None or names.stop is None else max(last.stop, names.stop)
            united[-1] = NameRange(last.start, stop)
        else:
            united.append(names)
    return united


def _cut_stretch(
    task: MergeTask,
    names: NameRange,
    base: list[ListRef],
    changes: list[ListOfInput],
    blocks_of: BlocksOf,
    is_below_base_file: Callable[[str], bool],
) -> list[Part]:
    """Cut a stretch of names into ranges with about the same amount of work, which marks tell."""
    entries = sum(one.count for one in base) + sum(reference.count for _, reference in changes)
    ranges = max(1, entries // _target(task.sizes, entries))
    if ranges == 1:
        return [Part(names, cost=entries)]
    cutting = task.sizes.cutting
    marks = [(one.start, one.count) for one in base]
    marks += _costs(changes, blocks_of, entries // MAX_MARKS, cutting)
    inside = sorted(mark for mark in marks if mark[0] >= names.start)
    cost = sum(cost for _, cost in inside)
    ranges = max(1, cost // _target(task.sizes, cost))
    first_names = {one.start for one in base}

    def may_cut(key: str, *, anywhere: bool) -> bool:
        if key in first_names:
            return True
        return (anywhere or cutting.starts_list(name_of(key))) and not (base and is_below_base_file(key))

    few_begin = not base and sum(may_cut(key, anywhere=False) for key, _ in inside) < 2 * ranges
    parts = cut_at(inside, names, ranges, may_cut, LARGE if few_begin else LARGEST)
    starts = [bisect_left(inside, (part.start,)) for part in parts]
    costs = (sum(cost for _, cost in inside[a:b]) for a, b in pairwise([*starts, len(inside)]))
    return [Part(part, cost=cost) for part, cost in zip(parts, costs, strict=True)]


def _target(sizes: Sizes, entries: int) -> int:
    """How many entries a range should have, out of so many in all."""
    spread = max(sizes.few_entries, entries // FEW_RANGES)
    return max(1, min(sizes.range_entries, spread), entries // MAX_RANGES)


class MayCut(Protocol):
    """Says whether names may be cut at a sort key; `anywhere` where a range has become too large."""

    def __call__(self, key: str, *, anywhere: bool) -> bool: ...  # noqa: D102


def _always(key: str, *, anywhere: bool) -> bool:  # noqa: ARG001
    return True


def cut_at(
    marks: list[Mark], names: NameRange, ranges: int, may_cut: MayCut = _always, largest: float = LARGEST
) -> list[NameRange]:
    """Cut names into about so many ranges of equal size. Marks are sorted, and none lies before the names."""
    cuts = _cuts(marks, ranges, may_cut, largest) if ranges > 1 else []
    return [NameRange(start, stop) for start, stop in zip([names.start, *cuts], [*cuts, names.stop], strict=True)]


def _cuts(marks: list[Mark], ranges: int, may_cut: MayCut, largest: float) -> list[str]:
    share = sum(count for _, count in marks) / ranges
    cuts: list[str] = []
    since = 0  # how many entries came before the last cut
    for (key, count), seen in zip(marks, accumulate(count for _, count in marks), strict=True):
        before, due = seen - count, (len(cuts) + 1) * share
        if before < due or key == (cuts[-1] if cuts else marks[0][0]):
            continue
        if may_cut(key, anywhere=before - since >= largest * share):
            cuts.append(key)
            since = before
    return cuts


def _costs(lists: list[ListOfInput], blocks_of: BlocksOf, step: int, cutting: Cutting) -> Iterator[Mark]:
    """Where names lie, and what it costs to merge them: a block that no other one overlaps will only be copied."""
    pieces = sorted(chain.from_iterable(map_concurrently(lists, lambda one: _pieces(one, blocks_of, step, cutting))))
    for cluster in clusters(pieces):
        yield from ((start, max(1, count // COPIED) if len(cluster) == 1 else count) for start, _, count in cluster)


def _pieces(one: ListOfInput, blocks_of: BlocksOf, step: int, cutting: Cutting) -> list[tuple[str, str, int]]:
    """A list in pieces: cut where lists of the result may begin, and elsewhere at least `step` entries apart."""
    reference = one[1]
    marks: list[Mark] = []
    for block in blocks_of(one) if reference.count > cutting.block_entries else ():
        if marks and marks[-1][1] < step and not cutting.starts_list(block.first):
            marks[-1] = (marks[-1][0], marks[-1][1] + block.count)
        else:
            marks.append((sort_key(block.first), block.count))
    marks = marks or [(reference.start, reference.count)]
    ends = [*(start for start, _ in marks[1:]), reference.end]
    return [(start, end, count) for (start, count), end in zip(marks, ends, strict=True)]


Interval = TypeVar("Interval", bound=tuple[str, str, *tuple[object, ...]])


def clusters(intervals: Iterable[Interval]) -> Iterator[list[Interval]]:
    """Group sorted intervals of names that overlap. An interval is (start, end, anything else)."""
    cluster: list[Interval] = []
    reach = ""
    for one in intervals:
        if cluster and one[0] >= reach:
            yield cluster
            cluster = []
        cluster.append(one)
        reach = max(reach, one[1]) if len(cluster) > 1 else one[1]
    if cluster:
        yield cluster
