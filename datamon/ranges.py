"""Cutting the names of a commit into ranges: the work of one task each.

    lists of splits, by first name     a-----c d----f   h--------m     t-t u-u v-v
                                                       i----k  l-----p
    what touches another, or is small  whole   whole   merged          merged
    ranges                             |-------------| |---|---|---|   |---------|

A list that no other split comes near is taken whole. The others are cut at names that lists or their blocks start
with, so that every range has about as many entries, however unevenly names are spread: at most a block of each list
more than it should. The cut depends on what there is to merge alone: whoever takes over must cut, and so write, the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from datamon.catalog import at_once
from datamon.filelist import BLOCK_ENTRIES, MAX_ENTRIES, Block
from datamon.ids import SplitId
from datamon.model import ListInfo
from datamon.names import NameRange, order

RANGE_ENTRIES = 45_000  # what one task merges in a twelfth of a second, and writes as one list
STRIP_ENTRIES = 5_000  # settled at a time: what is made of them stays in the processor's caches
STRIP_PIECE = 32  # and of a list at least so many, or to find them takes longer than that saves
FEW_RANGES, FEW_ENTRIES = 4, 4_000  # a small merge is spread over a few cores, as far as that saves any time
MAX_RANGES = 10_000
FINE = 32  # a range is made of about so many pieces of each list, or of as many as there are lists
MAX_MARKS = 1_000_000
WHOLE_LISTS = 8  # what one task takes as they are
TAKEN_WHOLE_FROM = 1_000  # a list with fewer entries is better joined with its neighbours

SplitList = tuple[SplitId, ListInfo]
BlocksOf = Callable[[SplitList], Sequence[Block]]
Mark = tuple[str, int]
"""(order key, about how many entries a list has from there on up to its next mark)"""


@dataclass(frozen=True, slots=True)
class NumberedRange:
    """The work of one merge task; the number names its lists. If it is `whole`, its lists are taken as they are."""

    number: int
    names: NameRange
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Cutting:
    """How finely names are cut."""

    range_entries: int = RANGE_ENTRIES
    few_entries: int = FEW_ENTRIES
    whole_from: int = TAKEN_WHOLE_FROM
    whole_to: int = MAX_ENTRIES
    per_block: int = BLOCK_ENTRIES
    strip_entries: int = STRIP_ENTRIES
    strip_piece: int = STRIP_PIECE

    def target(self, entries: int) -> int:
        """How many entries a range should have, of so many in all."""
        spread = max(self.few_entries, entries // FEW_RANGES)
        return max(1, min(self.range_entries, spread), entries // MAX_RANGES)

    def strips(self, entries: int, lists: int) -> int:
        """In how many strips a range with so many entries of so many lists is settled."""
        return entries // max(self.strip_entries, self.strip_piece * lists)


USUAL = Cutting()


def ranges_of(lists: Iterable[SplitList], blocks_of: BlocksOf, cutting: Cutting) -> list[NumberedRange]:
    """The work of a merge, in name order. Names that no list comes near are in no range."""
    stretches = list(_stretches(lists, cutting))
    if len(stretches) > MAX_RANGES // 2:  # lists that are taken whole would cut the others into too many pieces
        stretches = [(False, [one for _, some in stretches for one in some])]
    target = cutting.target(sum(info.count for whole, some in stretches if not whole for _, info in some))
    cut = [
        (names, whole)
        for whole, some in stretches
        for names in (_batches(some) if whole else _cut(some, blocks_of, target, cutting.per_block))
    ]
    return [NumberedRange(number, names, whole) for number, (names, whole) in enumerate(cut)]


def _stretches(lists: Iterable[SplitList], cutting: Cutting) -> Iterator[tuple[bool, list[SplitList]]]:
    """Lists that follow each other and are all taken whole, or all merged."""

    def whole(some: list[SplitList]) -> bool:
        return len(some) == 1 and cutting.whole_from <= some[0][1].count <= cutting.whole_to

    for is_whole, clusters in groupby(_clusters(lists), key=whole):
        yield is_whole, [one for cluster in clusters for one in cluster]


def _clusters(lists: Iterable[SplitList]) -> Iterator[list[SplitList]]:
    """Lists that touch: they may hold one name, or a file and something below it. By first name."""
    cluster: list[SplitList] = []
    reach = ""
    for one in sorted(lists, key=lambda pair: (order(pair[1].first), pair[0])):
        if cluster and order(one[1].first) >= reach:
            yield cluster
            cluster = []
        cluster.append(one)
        reach = max(reach, _end(one))
    if cluster:
        yield cluster


def _end(one: SplitList) -> str:
    """Where a list's names end, with whatever may lie below the last one."""
    return order(one[1].last) + "\1"


def _batches(lists: list[SplitList]) -> Iterator[NameRange]:
    for start in range(0, len(lists), WHOLE_LISTS):
        some = lists[start : start + WHOLE_LISTS]
        yield NameRange(order(some[0][1].first), _end(some[-1]))


def _cut(lists: list[SplitList], blocks_of: BlocksOf, target: int, per_block: int) -> list[NameRange]:
    """Cut a stretch of names where marks say that about as many entries have gone by as a range should have."""
    start, stop = order(lists[0][1].first), max(map(_end, lists))
    entries = sum(info.count for _, info in lists)
    ranges, step = max(1, entries // target), max(target // max(FINE, len(lists)), entries // MAX_MARKS)
    marks = list(_marks(lists, blocks_of, step, per_block)) if ranges > 1 else []
    return cut_at(marks, NameRange(start, stop), ranges)


def cut_at(marks: list[Mark], names: NameRange, ranges: int) -> list[NameRange]:
    """Cut names into about so many ranges with as many entries each. No mark lies before them."""
    cuts = _cuts(marks, ranges) if ranges > 1 else []
    return [NameRange(start, stop) for start, stop in zip([names.start, *cuts], [*cuts, names.stop], strict=True)]


def _cuts(marks: list[Mark], ranges: int) -> list[str]:
    marks.sort()
    total = sum(count for _, count in marks)
    cuts: list[str] = []
    for (key, count), seen in zip(marks, accumulate(count for _, count in marks), strict=True):
        due = (len(cuts) + 1) * total / ranges
        if seen - count >= due and key != (cuts[-1] if cuts else marks[0][0]):
            cuts.append(key)
    return cuts


def _marks(lists: list[SplitList], blocks_of: BlocksOf, step: int, per_block: int) -> Iterator[Mark]:
    """Where names lie, at least a step of entries apart in each list."""

    def marks(one: SplitList) -> list[Mark]:
        if one[1].count <= per_block:
            return [(order(one[1].first), one[1].count)]
        found: list[Mark] = []
        for block in blocks_of(one):
            if found and found[-1][1] < step:
                found[-1] = (found[-1][0], found[-1][1] + block.count)
            else:
                found.append((order(block.first), block.count))
        return found

    for some in at_once(lists, marks):
        yield from some
