"""From the file lists of splits to the file lists of a bundle, one range of names at a time.

    split lists (sorted, disjoint within a split) -> slices of the range -> rules -> lists of the bundle

Entries go from store to store; only reports and list descriptions come back. A range writes the same bytes
however often and wherever it runs, so a repeated task finds its lists there and is done. Lists that no other
split comes near, as when every machine writes folders of its own, are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from datamon import descriptors, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, StaleWrite, quoted
from datamon.filelist import MAX_ENTRIES, Brief, FileList, ListWriter, read_whole, unlisted
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.merge import Rank, Run, Settled, Version, settle_range
from datamon.model import ConflictMode, Entry, ListInfo, Order, Split, SplitState, TakenSplit
from datamon.names import NameRange, ancestors, order
from datamon.ranges import USUAL, Cutting, NumberedRange, SplitList, ranges_of
from datamon.stores import Context, ObjectStore, create_same
from datamon.telling import Tell, untold

Found = TypeVar("Found")

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
    """The work of a commit. Of the heads that it takes to cut, only marks are kept."""
    slices = _Slices(task, context.vmetadata)
    return ranges_of(slices.lists, lambda one: slices.open(*one).head.blocks, task.cutting)


def check_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Count what a range would become; write nothing."""
    report, settled = look_at(part, task, context)
    tell(report.files, report.bytes, 0)
    return replace(report, sample=[_told(one) for one in settled[:SAMPLE]])


def look_at(part: NumberedRange, task: MergeTask, context: Context) -> tuple[RangeReport, list[Settled]]:
    """What a range would become, and which names of it are contested."""
    slices = _Slices(task, context.vmetadata)
    if part.whole:
        return _report([info for _, info in slices.met(part.names)]), []
    outcome = settle_range(part.names, slices)
    kept = [version.entry for settled in outcome.contested for version in settled.conflicts if task.mode.folder]
    size = sum(brief.size for brief in outcome.briefs) + sum(entry.size for entry in kept)
    conflicts = _conflicts(outcome.contested, task.mode)
    report = RangeReport(len(outcome.briefs) + len(kept), size, conflicts)
    return report, outcome.contested


def merge_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Settle a range of names and write its file lists: the winners, and apart from them what lost."""
    if part.whole:
        report = _report(_taken(part, task, context))
    else:
        outcome = settle_range(part.names, _Slices(task, context.vmetadata))
        won = _Lists(task, part.number, context.metadata).move(outcome.briefs, outcome.lines)
        lost = (version for settled in outcome.contested for version in settled.conflicts)
        filed = sorted(_filed(lost, task.mode), key=lambda entry: order(entry.name))
        kept = _Lists(task, part.number, context.metadata, lost=True).add(filed)
        report = _report([*won, *kept], _conflicts(outcome.contested, task.mode))
    tell(report.files, report.bytes, 0)
    return report


def _taken(part: NumberedRange, task: MergeTask, context: Context) -> list[ListInfo]:
    """Put lists of splits among those of the bundle, byte for byte."""
    slices = _Slices(task, context.vmetadata)
    taken: list[ListInfo] = []
    for split, info in slices.met(part.names):
        index = keys.bundle_index(part.number, len(taken))
        body = read_whole(context.vmetadata, keys.split_files(task.repo, task.diamond, split, info.index), info)
        create_same(context.metadata, keys.bundle_files(task.repo, task.bundle, index), body)
        taken.append(replace(info, index=index))
    return taken


def lost_name(version: Version, mode: ConflictMode) -> str | None:
    """What a version that lost is kept as: filed under its own split, if at all."""
    return f"{mode.folder}/{version.split}/{version.entry.name}" if mode.folder is not None else None


def _filed(lost: Iterable[Version], mode: ConflictMode) -> Iterator[Entry]:
    for version in lost:
        name = lost_name(version, mode)
        if name is not None:
            yield msgspec.structs.replace(version.entry, name=name)


class _Slices:
    """The Reader over the lists of all splits. It opens only lists that a range meets, and reads only what it needs."""

    def __init__(self, task: MergeTask, vmetadata: ObjectStore) -> None:
        self._task, self._vmetadata = task, vmetadata
        self._opened: dict[tuple[SplitId, str], FileList] = {}
        self._positions = {split.id: split.position for split in task.splits}
        self.lists = [(split.id, info) for split in task.splits for info in task.lists[split.id]]
        self._ends = [(order(info.first), order(info.last)) for _, info in self.lists]

    def met(self, names: NameRange) -> list[SplitList]:
        """The lists that may hold names of a range, by first name."""
        found = [(ends, one) for ends, one in zip(self._ends, self.lists, strict=True) if names.meets(*ends)]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def open(self, split: SplitId, info: ListInfo) -> FileList:
        """One list."""
        return FileList.stored(self._vmetadata, self._key(split, info), info)

    def runs(self, names: NameRange) -> list[Run]:
        """See Reader."""

        def read(one: SplitList) -> tuple[SplitList, FileList, bytes]:
            found = self.open(*one)
            return one, found, found.read(names)

        runs: list[Run] = []
        for (split, info), found, body in self._each(read, self.met(names)):
            lines = unlisted(body)
            runs.append(Run(split, found.briefs(lines), lines, self._rank(split), self._key(split, info)))
            if info.head:  # what stands before the slice may be asked for; one without a head is there whole
                self._opened[split, info.index] = found
        return runs

    def above(self, key: str) -> list[Version]:
        """See Reader. A split with such a file has nothing below it, so it stands right before the key in its list."""
        folders = list(ancestors(key))

        def look(one: SplitList) -> Version | None:
            split, info = one
            listed = self._opened.get((split, info.index)) or self.open(split, info)
            line = listed.above(key)
            run = Run(split, [], [], self._rank(split), self._key(split, info))
            return Version.of(line, run) if line is not None else None

        near = [
            one
            for one, (first, last) in zip(self.lists, self._ends, strict=True)
            if first < key and (last >= key or last in folders)
        ]
        found = [version for version in self._each(look, near if folders else []) if version is not None]
        above = (version for version in found if order(version.entry.name) in folders)
        return sorted(above, key=lambda version: order(version.entry.name))

    def strongest(self, names: NameRange) -> Rank | None:
        """See Reader. A list that lies inside is not opened."""

        def strength(one: SplitList) -> Rank | None:
            split, info = one
            rank, ends = self._rank(split), (names.holds(order(info.first)), names.holds(order(info.last)))
            if rank is not None and any(ends):
                return rank, split
            latest = info.latest if all(ends) and info.latest else self.open(split, info).latest(names)
            return None if latest is None else (latest if rank is None else rank, split)

        return max((found for found in self._each(strength, self.met(names)) if found is not None), default=None)

    def _each(self, work: Callable[[SplitList], Found], lists: list[SplitList]) -> Iterable[Found]:
        return at_once(lists, work) if self._vmetadata.is_far else map(work, lists)

    def _key(self, split: SplitId, info: ListInfo) -> str:
        return keys.split_files(self._task.repo, self._task.diamond, split, info.index)

    def _rank(self, split: SplitId) -> int | None:
        return self._positions[split] if self._task.order is Order.ADDED else None


class _Lists:
    """The lists that a range writes: of what won, or of what lost."""

    def __init__(self, task: MergeTask, number: int, metadata: ObjectStore, *, lost: bool = False) -> None:
        self._task, self._number, self._metadata, self._lost = task, number, metadata, lost

    def add(self, entries: Sequence[Entry]) -> list[ListInfo]:
        """Write entries into as many lists as they need."""
        return self._write(len(entries), lambda writer, some: writer.add(*entries[some]))

    def move(self, briefs: Sequence[Brief], lines: Sequence[bytes]) -> list[ListInfo]:
        """Write lines of other lists, as they are."""
        return self._write(len(lines), lambda writer, some: writer.move(briefs[some], lines[some]))

    def _write(self, count: int, fill: Callable[[ListWriter, slice], None]) -> list[ListInfo]:
        written: list[ListInfo] = []
        for start in range(0, count, self._task.list_entries):
            index = keys.bundle_index(self._number, len(written), lost=self._lost)
            writer = ListWriter()
            fill(writer, slice(start, start + self._task.list_entries))
            body, info = writer.seal(index)
            create_same(self._metadata, keys.bundle_files(self._task.repo, self._task.bundle, index), body)
            written.append(info)
        return written


def _report(lists: list[ListInfo], conflicts: int = 0) -> RangeReport:
    """What was written, or would be taken as it is."""
    return RangeReport(sum(info.count for info in lists), sum(info.bytes for info in lists), conflicts, lists=lists)


def _conflicts(settled: Iterable[Settled], mode: ConflictMode) -> int:
    return sum(len(one.conflicts) for one in settled) if mode is not ConflictMode.IGNORE else 0


def contested(name: str, losers: Iterable[SplitId], winner: SplitId, *, overruled: bool) -> str:
    """A name that splits do not agree on, with those splits, as part of a sentence."""
    if overruled:
        return f"{quoted(name)} (split {_few(losers)}, against a file or folder in its place of {winner})"
    return f"{quoted(name)} (splits {_few({*losers, winner})})"


def _told(settled: Settled) -> str:
    name, losers = settled.conflicts[0].entry.name, (version.split for version in settled.conflicts)
    return contested(name, losers, winner_of(settled), overruled=settled.winner is None)


def _few(splits: Iterable[SplitId]) -> str:
    """Some of many splits: a hundred names of two thousand splits each would be too much for one answer."""
    named = sorted(splits)
    return ", ".join(named[:NAMED]) + (f" and {len(named) - NAMED} more" if len(named) > NAMED else "")


def winner_of(settled: Settled) -> SplitId:
    """The split that a name, or what takes its place, comes from."""
    winner = settled.winner.split if settled.winner else settled.overruled_by
    assert winner is not None
    return winner
