"""From the file lists of splits to the file lists of a bundle, one range of names at a time.

    split lists (sorted, disjoint within a split) -> slices of the range -> rules -> lists of the bundle

Entries go from store to store; only reports and list descriptions come back. A range writes the same bytes
however often and wherever it runs, so a repeated task finds its lists there and is done. Lists that no other
split comes near, as when every machine writes folders of its own, are taken as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import msgspec

from datamon import descriptors, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, StaleWrite, quoted
from datamon.filelist import MAX_ENTRIES, FileList, ListWriter
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.merge import Settled, Version, settle_range
from datamon.model import ConflictMode, Entry, ListInfo, Order, Split, SplitState, TakenSplit
from datamon.names import NameRange, ancestors, below, just, order
from datamon.stores import Context, ObjectStore, create_same
from datamon.telling import Tell, untold

RANGE_ENTRIES = 20_000  # what one task merges in a fifth of a second
FEW_RANGES, FEW_ENTRIES = 4, 4_000  # a small merge is spread over a few cores, as far as that saves any time
MAX_RANGES = 10_000
NAMED = 5  # how many splits of a conflicting name are spelled out
SAMPLE = 100  # how many conflicting names an error or report spells out


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Everything a task needs to know, but for its range."""

    repo: RepoName
    diamond: DiamondId
    bundle: BundleId
    mode: ConflictMode
    order: Order
    splits: Sequence[TakenSplit]
    lists: dict[SplitId, Sequence[ListInfo]]
    list_entries: int = MAX_ENTRIES
    taken_whole_from: int = 1_000  # a list with fewer entries is better joined with its neighbours


@dataclass(frozen=True, slots=True)
class NumberedRange:
    """The work of one merge task; the number names its lists."""

    number: int
    names: NameRange


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What one range became."""

    files: int = 0
    bytes: int = 0
    conflicts: int = 0
    sample: list[str] = field(default_factory=list)
    lists: list[ListInfo] = field(default_factory=list)


def read_splits(vmetadata: ObjectStore, repo: RepoName, diamond: DiamondId, taken: Iterable[TakenSplit]) -> list[Split]:
    """The descriptors of splits that go into a bundle, each seen to be done in the generation that was taken."""

    def read(split: TakenSplit) -> Split:
        key = keys.split(repo, diamond, split.id)
        found = descriptors.read(Split, vmetadata, key)
        if found.generation != split.generation:
            raise StaleWrite(key)
        if found.state is not SplitState.DONE:
            raise CorruptObject(key, f"`state` is {found.state}, but the diamond was told it is done")
        return found

    return list(at_once(taken, read))


def ranges_of(lists: Sequence[ListInfo]) -> list[NumberedRange]:
    """The work of a merge, cut by what there is to merge alone: whoever takes over must cut, and so write, the same."""
    entries = sum(info.count for info in lists)
    ranges = max(1, min(MAX_RANGES, entries // RANGE_ENTRIES), min(FEW_RANGES, entries // FEW_ENTRIES))
    return [NumberedRange(number, names) for number, names in enumerate(cut_names(lists, ranges))]


def cut_names(lists: Iterable[ListInfo], ranges: int) -> list[NameRange]:
    """Cut all names into at most so many ranges with about equally many entries, judging by where lists start."""
    starts = sorted((order(info.first), info.count) for info in lists)
    total = sum(count for _, count in starts)
    cuts: list[str] = []
    for (start, count), seen in zip(starts, accumulate(count for _, count in starts), strict=True):
        due = (len(cuts) + 1) * total / ranges
        if seen - count >= due and len(cuts) < ranges - 1 and start != (cuts[-1] if cuts else starts[0][0]):
            cuts.append(start)
    return [NameRange(start, stop) for start, stop in zip(["", *cuts], [*cuts, None], strict=True)]


def check_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Count what a range would become; write nothing."""
    alone = _alone(part.names, task)
    if alone is not None:
        return _as_they_are(alone, [], tell)
    tally = _Tally(task.mode)
    for settled in settle_range(part.names, _Slices(task, context.vmetadata)):
        tally.add(settled)
    return tally.report([], tell)


def outcomes(part: NumberedRange, task: MergeTask, context: Context) -> Iterator[Settled | ListInfo]:
    """What becomes of every name of a range; or, where nothing can be contested, its lists, which stay closed."""
    alone = _alone(part.names, task)
    if alone is not None:
        yield from (info for _, info in alone)
    else:
        yield from settle_range(part.names, _Slices(task, context.vmetadata))


def merge_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Settle a range of names and write its file lists: the winners, and apart from them what lost."""
    alone = _alone(part.names, task)
    if alone is not None:
        return _as_they_are(alone, _taken(alone, part.number, task, context), tell)
    tally = _Tally(task.mode)
    winners = _ListSeries(task, part.number, context.metadata)
    lost: list[Version] = []
    for settled in settle_range(part.names, _Slices(task, context.vmetadata)):
        tally.add(settled)
        if settled.winner is not None:
            winners.add(settled.winner)
        lost.extend(filed for version in settled.conflicts if (filed := _filed(version, task.mode)) is not None)
    kept = _ListSeries(task, part.number, context.metadata, lost=True)
    for version in sorted(lost, key=lambda v: order(v.entry.name)):
        kept.add(version)
    return tally.report([*winners.close(), *kept.close()], tell)


_ListOf = tuple[SplitId, ListInfo]


def _alone(names: NameRange, task: MergeTask) -> list[_ListOf] | None:
    """The lists of a range, in order, if nothing in any of them can be settled otherwise than it stands there."""
    everything = [(split.id, info) for split in task.splits for info in task.lists[split.id]]
    met = [(split, info) for split, info in everything if names.meets(order(info.first), order(info.last))]
    for split, info in met:
        whole = names.holds(order(info.first)) and names.holds(order(info.last))
        if not whole or not task.taken_whole_from <= info.count <= task.list_entries:
            return None
        if any(other != split and _touch(info, theirs) for other, theirs in everything):
            return None
    return sorted(met, key=lambda pair: order(pair[1].first))


def _touch(info: ListInfo, other: ListInfo) -> bool:
    """Whether two lists may hold one name, or a file and something below it.

    What lies above any name of a list, and before the list, lies above its first one; below and behind, below its last.
    """
    first, last = order(other.first), order(other.last)
    near = (NameRange(order(info.first), order(info.last) + "\0"), below(order(info.last)))
    above = map(just, ancestors(order(info.first)))
    return any(names.meets(first, last) for names in (*near, *above))


def _taken(lists: list[_ListOf], number: int, task: MergeTask, context: Context) -> list[ListInfo]:
    """Put lists of splits among those of the bundle, byte for byte."""
    taken: list[ListInfo] = []
    for split, info in lists:
        key = keys.split_files(task.repo, task.diamond, split, info.index)
        body = context.vmetadata.get(key)
        FileList(key, body, info.digest)
        index = keys.bundle_index(number, len(taken))
        create_same(context.metadata, keys.bundle_files(task.repo, task.bundle, index), body)
        taken.append(replace(info, index=index))
    return taken


def _as_they_are(lists: list[_ListOf], written: list[ListInfo], tell: Tell) -> RangeReport:
    files, size = sum(info.count for _, info in lists), sum(info.bytes for _, info in lists)
    tell(files, size, 0)
    return RangeReport(files, size, lists=written)


def lost_name(version: Version, mode: ConflictMode) -> str | None:
    """What a version that lost is kept as: filed under its own split, if at all."""
    return f"{mode.folder}/{version.split}/{version.entry.name}" if mode.folder is not None else None


def _filed(version: Version, mode: ConflictMode) -> Version | None:
    name = lost_name(version, mode)
    if name is None:
        return None
    return msgspec.structs.replace(version, entry=msgspec.structs.replace(version.entry, name=name))


class _Slices:
    """A Reader over the lists of all splits, which opens only the lists that a range meets."""

    def __init__(self, task: MergeTask, vmetadata: ObjectStore) -> None:
        self._task, self._vmetadata = task, vmetadata

    def __call__(self, names: NameRange) -> Iterator[Version]:
        streams = (self._split(split, names) for split in self._task.splits)
        return heapq.merge(*streams, key=lambda v: order(v.entry.name))

    def _split(self, split: TakenSplit, names: NameRange) -> Iterator[Version]:
        for info in self._task.lists[split.id]:
            if names.meets(order(info.first), order(info.last)):
                key = keys.split_files(self._task.repo, self._task.diamond, split.id, info.index)
                packs, entries = self._slice(key, info.digest, names)
                for entry in entries:
                    rank = entry.timestamp if self._task.order is Order.UPLOADED else split.position
                    yield Version(entry, split.id, rank, packs)

    def _slice(self, key: str, digest: str, names: NameRange) -> tuple[Sequence[str], list[Entry]]:
        """Apart from the loop, so that the list's bytes are gone while its slice is being merged."""
        found = FileList(key, self._vmetadata.get(key), digest)
        return found.packs, found.entries(names)


class _ListSeries:
    """Writes entries into as many lists as they need."""

    def __init__(self, task: MergeTask, number: int, metadata: ObjectStore, *, lost: bool = False) -> None:
        self._task, self._number, self._metadata, self._lost = task, number, metadata, lost
        self._writer = ListWriter()
        self._done: list[ListInfo] = []

    def add(self, version: Version) -> None:
        self._writer.add(version.entry, version.packs)
        if len(self._writer) == self._task.list_entries:
            self._write()

    def close(self) -> list[ListInfo]:
        if len(self._writer):
            self._write()
        return self._done

    def _write(self) -> None:
        index = keys.bundle_index(self._number, len(self._done), lost=self._lost)
        body, info = self._writer.seal(index)
        create_same(self._metadata, keys.bundle_files(self._task.repo, self._task.bundle, index), body)
        self._done.append(info)
        self._writer = ListWriter()


class _Tally:
    def __init__(self, mode: ConflictMode) -> None:
        self._mode = mode
        self._files = self._bytes = self._conflicts = 0
        self._sample: list[str] = []

    def add(self, settled: Settled) -> None:
        filed = settled.conflicts if self._mode.folder is not None else ()
        for version in (*filed, *([settled.winner] if settled.winner else [])):
            self._files += 1
            self._bytes += version.entry.size
        if settled.conflicts and self._mode is not ConflictMode.IGNORE:
            self._conflicts += len(settled.conflicts)
            if len(self._sample) < SAMPLE:
                name, losers = settled.conflicts[0].entry.name, (version.split for version in settled.conflicts)
                self._sample.append(contested(name, losers, winner_of(settled), overruled=settled.winner is None))

    def report(self, lists: list[ListInfo], tell: Tell) -> RangeReport:
        tell(self._files, self._bytes, 0)
        return RangeReport(self._files, self._bytes, self._conflicts, self._sample, lists)


def contested(name: str, losers: Iterable[SplitId], winner: SplitId, *, overruled: bool) -> str:
    """A name that splits do not agree on, with those splits, as part of a sentence."""
    if overruled:
        return f"{quoted(name)} (split {_few(losers)}, against a file or folder in its place of {winner})"
    return f"{quoted(name)} (splits {_few({*losers, winner})})"


def _few(splits: Iterable[SplitId]) -> str:
    """Some of many splits: a hundred names of two thousand splits each would be too much for one answer."""
    named = sorted(splits)
    return ", ".join(named[:NAMED]) + (f" and {len(named) - NAMED} more" if len(named) > NAMED else "")


def winner_of(settled: Settled) -> SplitId:
    """The split that a name, or what takes its place, comes from."""
    winner = settled.winner.split if settled.winner else settled.overruled_by
    assert winner is not None
    return winner
