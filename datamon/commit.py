"""From the file lists of splits to the file lists of a bundle, one range of names at a time.

    split lists (sorted, disjoint within a split) -> slices of the range -> rules -> lists of the bundle

Entries go from store to store; only reports and list descriptions come back. A range writes the same bytes
however often and wherever it runs, so a repeated task finds its lists there and is done. Lists that no other
split comes near, as when every machine writes folders of its own, are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from datamon import descriptors, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, StaleWrite, quoted
from datamon.filelist import MAX_ENTRIES, FileList, ListWriter
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.merge import Rank, Run, Settled, Uncontested, Version, settle_range
from datamon.model import ConflictMode, Entry, ListInfo, Order, Split, SplitState, TakenSplit
from datamon.names import NameRange, ancestors, order
from datamon.ranges import USUAL, Cutting, NumberedRange, SplitList, ranges_of
from datamon.stores import Context, ObjectStore, create_same
from datamon.telling import Tell, untold

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
    cutting: Cutting = USUAL


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


def ranges_to_merge(task: MergeTask, context: Context) -> list[NumberedRange]:
    """The work of a commit."""
    slices = _Slices(task, context.vmetadata)
    return ranges_of(slices.lists, lambda one: slices.opened(*one).head.blocks, task.cutting)


def check_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Count what a range would become; write nothing."""
    tally = _Tally(task.mode)
    for outcome in outcomes(part, task, context):
        tally.add(outcome)
    return tally.report([], tell)


def outcomes(part: NumberedRange, task: MergeTask, context: Context) -> Iterator[Uncontested | Settled | ListInfo]:
    """What becomes of every name of a range; or, where nothing can be contested, its lists, which stay closed."""
    slices = _Slices(task, context.vmetadata)
    if part.whole:
        yield from (info for _, info in slices.met(part.names))
    else:
        yield from settle_range(part.names, slices)


def merge_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Settle a range of names and write its file lists: the winners, and apart from them what lost."""
    tally = _Tally(task.mode)
    if part.whole:
        taken = _taken(part, task, context)
        for info in taken:
            tally.add(info)
        return tally.report(taken, tell)
    winners = _ListSeries(task, part.number, context.metadata)
    lost: list[Version] = []
    for outcome in outcomes(part, task, context):
        tally.add(outcome)
        match outcome:
            case Uncontested(entries, runs):
                winners.extend(entries, [run.packs for run in runs])
            case Settled(winner, conflicts):
                if winner is not None:
                    winners.extend([winner.entry], [winner.packs])
                lost.extend(filed for version in conflicts if (filed := _filed(version, task.mode)) is not None)
    lost.sort(key=lambda version: order(version.entry.name))
    kept = _ListSeries(task, part.number, context.metadata, lost=True)
    kept.extend([version.entry for version in lost], [version.packs for version in lost])
    return tally.report([*winners.close(), *kept.close()], tell)


def _taken(part: NumberedRange, task: MergeTask, context: Context) -> list[ListInfo]:
    """Put lists of splits among those of the bundle, byte for byte."""
    slices = _Slices(task, context.vmetadata)
    taken: list[ListInfo] = []
    for split, info in slices.met(part.names):
        index = keys.bundle_index(part.number, len(taken))
        body = slices.opened(split, info).whole()
        create_same(context.metadata, keys.bundle_files(task.repo, task.bundle, index), body)
        taken.append(replace(info, index=index))
    return taken


def lost_name(version: Version, mode: ConflictMode) -> str | None:
    """What a version that lost is kept as: filed under its own split, if at all."""
    return f"{mode.folder}/{version.split}/{version.entry.name}" if mode.folder is not None else None


def _filed(version: Version, mode: ConflictMode) -> Version | None:
    name = lost_name(version, mode)
    if name is None:
        return None
    return msgspec.structs.replace(version, entry=msgspec.structs.replace(version.entry, name=name))


class _Slices:
    """The Reader over the lists of all splits. It opens only lists that a range meets, and reads only what it needs."""

    def __init__(self, task: MergeTask, vmetadata: ObjectStore) -> None:
        self._task, self._vmetadata = task, vmetadata
        self._positions = {split.id: split.position for split in task.splits}

    @property
    def lists(self) -> list[SplitList]:
        """All there are."""
        return [(split.id, info) for split in self._task.splits for info in self._task.lists[split.id]]

    def met(self, names: NameRange) -> list[SplitList]:
        """The lists that may hold names of a range, by first name."""
        found = [(split, info) for split, info in self.lists if names.meets(order(info.first), order(info.last))]
        return sorted(found, key=lambda pair: order(pair[1].first))

    def opened(self, split: SplitId, info: ListInfo) -> FileList:
        """One list."""
        key = keys.split_files(self._task.repo, self._task.diamond, split, info.index)
        return FileList.stored(self._vmetadata, key, info)

    def runs(self, names: NameRange) -> list[Run]:
        """See Reader."""

        def run(one: SplitList) -> Run:
            found = self.opened(*one)
            return Run(one[0], found.entries(names), found.packs, self._rank(one[0]))

        return list(at_once(self.met(names), run))

    def above(self, key: str) -> list[Version]:
        """See Reader. A split with such a file has nothing below it, so it stands right before the key in its list."""
        folders = list(ancestors(key))
        found: list[Version] = []
        for split, info in self.lists if folders else []:
            if order(info.first) < key and (order(info.last) >= key or order(info.last) in folders):
                listed = self.opened(split, info)
                entry = listed.before(key)
                if entry is not None and order(entry.name) in folders:
                    found.append(Version.of(entry, Run(split, [entry], listed.packs, self._rank(split))))
        return sorted(found, key=lambda version: order(version.entry.name))

    def strongest(self, names: NameRange) -> Rank | None:
        """See Reader."""

        def strength(one: SplitList) -> Rank | None:
            latest, rank = self.opened(*one).latest(names), self._rank(one[0])
            return None if latest is None else (latest if rank is None else rank, one[0])

        return max((found for found in at_once(self.met(names), strength) if found is not None), default=None)

    def _rank(self, split: SplitId) -> int | None:
        return self._positions[split] if self._task.order is Order.ADDED else None


class _ListSeries:
    """Writes entries into as many lists as they need."""

    def __init__(self, task: MergeTask, number: int, metadata: ObjectStore, *, lost: bool = False) -> None:
        self._task, self._number, self._metadata, self._lost = task, number, metadata, lost
        self._writer = ListWriter()
        self._done: list[ListInfo] = []

    def extend(self, entries: Sequence[Entry], tables: Sequence[Sequence[str]]) -> None:
        start = 0
        while start < len(entries):
            stop = start + self._task.list_entries - len(self._writer)
            self._writer.extend(entries[start:stop], tables[start:stop])
            if len(self._writer) == self._task.list_entries:
                self._write()
            start = stop

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

    def add(self, outcome: Uncontested | Settled | ListInfo) -> None:
        files, size = bulk(outcome, self._mode)
        self._files, self._bytes = self._files + files, self._bytes + size
        if isinstance(outcome, Settled) and outcome.conflicts and self._mode is not ConflictMode.IGNORE:
            self._conflicts += len(outcome.conflicts)
            if len(self._sample) < SAMPLE:
                name, losers = outcome.conflicts[0].entry.name, (version.split for version in outcome.conflicts)
                self._sample.append(contested(name, losers, winner_of(outcome), overruled=outcome.winner is None))

    def report(self, lists: list[ListInfo], tell: Tell) -> RangeReport:
        tell(self._files, self._bytes, 0)
        return RangeReport(self._files, self._bytes, self._conflicts, self._sample, lists)


def bulk(outcome: Uncontested | Settled | ListInfo, mode: ConflictMode) -> tuple[int, int]:
    """How many files of how many bytes come into the bundle."""
    match outcome:
        case ListInfo():
            return outcome.count, outcome.bytes
        case Uncontested(entries):
            return len(entries), sum(entry.size for entry in entries)
    kept = [*(outcome.conflicts if mode.folder is not None else ()), *([outcome.winner] if outcome.winner else [])]
    return len(kept), sum(version.entry.size for version in kept)


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
