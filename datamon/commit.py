"""From the file lists of splits to the file lists of a bundle, one range of names at a time.

    split lists (sorted, disjoint within a split) -> slices of the range -> rules -> lists of the bundle

Entries go from store to store; only reports and list descriptions come back. A range writes the same bytes
however often and wherever it runs, so a repeated task finds its lists there and is done. Lists that no other
split comes near, as when every machine writes folders of its own, are taken as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from datamon import descriptors, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, StaleWrite, quoted
from datamon.filelist import MAX_ENTRIES, Brief, FileList, ListWriter, moved_below, read_whole, unlisted
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.merge import Outcome, Rank, Run, Settled, Version, settle_range
from datamon.model import ConflictMode, ListInfo, Order, Split, SplitState, TakenSplit
from datamon.names import NameRange, ancestors, order
from datamon.ranges import USUAL, Cutting, Mark, NumberedRange, SplitList, cut_at, ranges_of
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
    splits = _Splits(task, context.vmetadata)
    return ranges_of(splits.lists, lambda one: splits.open(one).head.blocks, task.cutting)


def check_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Count what a range would become; write nothing."""
    report, settled = look_at(part, task, context)
    tell(report.files, report.bytes, 0)
    return replace(report, sample=[_told(one) for one in settled[:SAMPLE]])


def look_at(part: NumberedRange, task: MergeTask, context: Context) -> tuple[RangeReport, list[Settled]]:
    """What a range would become, and which names of it are contested."""
    splits = _Splits(task, context.vmetadata)
    if part.whole:
        return _report([info for _, info in splits.met(part.names)]), []
    files, size, contested = 0, 0, list[Settled]()
    for outcome in _outcomes(part, splits):
        files += len(outcome.briefs)
        size += sum(brief.size for brief in outcome.briefs)
        contested += outcome.contested
    kept = [version.entry for settled in contested for version in settled.conflicts if task.mode.folder]
    size += sum(entry.size for entry in kept)
    return RangeReport(files + len(kept), size, _conflicts(contested, task.mode)), contested


def merge_range(part: NumberedRange, task: MergeTask, context: Context, tell: Tell = untold) -> RangeReport:
    """Settle a range of names and write its file lists: the winners, and apart from them what lost."""
    splits = _Splits(task, context.vmetadata)
    if part.whole:
        report = _report(_taken(part, splits, context.metadata))
    else:
        won, lost = (_Lists(task, part.number, context.metadata, lost=lost) for lost in (False, True))
        contested: list[Settled] = []
        for outcome in _outcomes(part, splits):
            won.move(outcome.briefs, outcome.lines)
            contested += outcome.contested
            del outcome  # before the next one is made, so that it gets the same memory
        lost.move(*_filed(contested, task.mode))
        report = _report([*won.end(), *lost.end()], _conflicts(contested, task.mode))
    tell(report.files, report.bytes, 0)
    return report


def _outcomes(part: NumberedRange, splits: _Splits) -> Iterator[Outcome]:
    """Settle a range, strip by strip."""
    slices = _Slices(splits, part.names)
    return (settle_range(names, slices) for names in slices.strips())


def _taken(part: NumberedRange, splits: _Splits, metadata: ObjectStore) -> list[ListInfo]:
    """Put lists of splits among those of the bundle, byte for byte."""
    task = splits.task
    taken: list[ListInfo] = []
    for one in splits.met(part.names):
        index = keys.bundle_index(part.number, len(taken))
        body = read_whole(splits.store, splits.key(one), one[1])
        create_same(metadata, keys.bundle_files(task.repo, task.bundle, index), body)
        taken.append(replace(one[1], index=index))
    return taken


def lost_name(version: Version, mode: ConflictMode) -> str | None:
    """What a version that lost is kept as: filed under its own split, if at all."""
    return f"{mode.folder}/{version.split}/{version.entry.name}" if mode.folder is not None else None


def _filed(contested: Iterable[Settled], mode: ConflictMode) -> tuple[list[Brief], list[bytes]]:
    """The versions that lost as they are kept, in name order: that of their splits, for they come by name."""
    if mode.folder is None:
        return [], []
    lost = sorted((version for settled in contested for version in settled.conflicts), key=lambda v: v.split)
    filed = [(f"{mode.folder}/{version.split}", version.entry, version.line) for version in lost]
    briefs = [Brief(f"{folder}/{entry.name}", entry.size, entry.timestamp) for folder, entry, _ in filed]
    return briefs, [moved_below(folder, line) for folder, _, line in filed]


class _Splits:
    """The lists of all splits."""

    def __init__(self, task: MergeTask, store: ObjectStore) -> None:
        self.task, self.store = task, store
        self.lists = [(split.id, info) for split in task.splits for info in task.lists[split.id]]
        self._positions = {split.id: split.position for split in task.splits}

    def met(self, names: NameRange) -> list[SplitList]:
        """The lists that may hold names of a range, by first name."""
        found = [(ends, one) for one in self.lists if names.meets(*(ends := _ends(one)))]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def open(self, one: SplitList) -> FileList:
        """One list."""
        return FileList.stored(self.store, self.key(one), one[1])

    def key(self, one: SplitList) -> str:
        """Where a list lies."""
        split, info = one
        return keys.split_files(self.task.repo, self.task.diamond, split, info.index)

    def rank(self, split: SplitId) -> int | None:
        """What all entries of a split are compared by, if it is not their time."""
        return self._positions[split] if self.task.order is Order.ADDED else None

    def each(self, work: Callable[[SplitList], Found], lists: list[SplitList]) -> Iterable[Found]:
        """Do some work that reads on each of these lists."""
        return at_once(lists, work) if self.store.is_far else map(work, lists)


class _Slices:
    """The Reader over what all splits hold in one range of names. It opens only lists that the range meets.

    All of it is read at once, and settled in strips: what is made of a few thousand lines stays in the processor's
    caches, and its memory serves for the next ones.
    """

    def __init__(self, splits: _Splits, names: NameRange) -> None:
        self._splits, self._names = splits, names
        folders = set(ancestors(names.start))
        near = [one for one in splits.lists if _is_near(_ends(one), names, folders)]
        self._held = [(one, _ends(one), found) for one, found in zip(near, splits.each(self._hold, near), strict=True)]
        self._strongest: dict[NameRange, Rank | None] = {}

    def strips(self) -> list[NameRange]:
        """The range in pieces, cut at names that blocks start with; one in which it starts itself does not count."""
        marks: list[Mark] = []
        for _, _, found in self._held:
            head = found.head
            inside = slice(bisect_left(head.firsts, self._names.start), head.around(self._names)[1])
            marks += zip(head.firsts[inside], (block.count for block in head.blocks[inside]), strict=True)
        strips = self._splits.task.cutting.strips(sum(count for _, count in marks), len(self._held))
        return cut_at(marks, self._names, strips)

    def runs(self, names: NameRange) -> list[Run]:
        """See Reader."""
        runs: list[Run] = []
        for one, ends, found in self._held:
            if names.meets(*ends):
                lines = unlisted(found.read(names))
                runs.append(self._run(one, found.briefs(lines), lines))
        return runs

    def above(self, key: str) -> list[Version]:
        """See Reader. A split with such a file has nothing below it, so it stands right before the key in its list."""
        folders = set(ancestors(key))
        found = (
            Version.of(line, self._run(one, [], []))
            for one, ends, listed in (self._held if folders else ())
            if ends[0] < key and (ends[1] >= key or ends[1] in folders) and (line := listed.above(key)) is not None
        )
        above = (version for version in found if order(version.entry.name) in folders)
        return sorted(above, key=lambda version: order(version.entry.name))

    def strongest(self, names: NameRange) -> Rank | None:
        """See Reader. A list that lies inside is not opened."""

        def strength(one: SplitList) -> Rank | None:
            split, info = one
            rank, ends = self._splits.rank(split), list(map(names.holds, _ends(one)))
            if rank is not None and any(ends):
                return rank, split
            latest = info.latest if all(ends) and info.latest else self._opened(one, names).latest(names)
            return None if latest is None else (latest if rank is None else rank, split)

        if names not in self._strongest:  # every strip below a folder asks for the same
            found = self._splits.each(strength, self._splits.met(names))
            self._strongest[names] = max((rank for rank in found if rank is not None), default=None)
        return self._strongest[names]

    def _opened(self, one: SplitList, names: NameRange) -> FileList:
        """A list as it is held, if that is enough."""
        held = next((found for other, _, found in self._held if other == one), None)
        return held if held is not None and self._names.contains(names) else self._splits.open(one)

    def _hold(self, one: SplitList) -> FileList:
        """A list with all that is asked of it later: what is in the range, or its last entry right before that."""
        start = min(self._names.start, _ends(one)[1])
        return self._splits.open(one).hold(NameRange(start, self._names.stop))

    def _run(self, one: SplitList, briefs: list[Brief], lines: list[bytes]) -> Run:
        return Run(one[0], briefs, lines, self._splits.rank(one[0]), self._splits.key(one))


def _ends(one: SplitList) -> tuple[str, str]:
    return order(one[1].first), order(one[1].last)


def _is_near(ends: tuple[str, str], names: NameRange, folders: Collection[str]) -> bool:
    """Whether a list meets a range, or ends in a file that stands in the place of a folder above its start."""
    return names.meets(*ends) or ends[1] in folders


class _Lists:
    """The lists that a range writes: of what won, or of what lost."""

    def __init__(self, task: MergeTask, number: int, metadata: ObjectStore, *, lost: bool) -> None:
        self._task, self._number, self._metadata, self._lost = task, number, metadata, lost
        self._writer = ListWriter()
        self._written: list[ListInfo] = []

    def move(self, briefs: Sequence[Brief], lines: Sequence[bytes]) -> None:
        """Write lines of other lists, as they are, into as many lists as they need."""
        done = 0
        while done < len(lines):
            some = slice(done, done + self._task.list_entries - len(self._writer))
            self._writer.move(briefs[some], lines[some])
            done = some.stop
            if len(self._writer) == self._task.list_entries:
                self._seal()

    def end(self) -> list[ListInfo]:
        """What was written, when all is."""
        if len(self._writer):
            self._seal()
        return self._written

    def _seal(self) -> None:
        index = keys.bundle_index(self._number, len(self._written), lost=self._lost)
        body, info = self._writer.seal(index)
        create_same(self._metadata, keys.bundle_files(self._task.repo, self._task.bundle, index), body)
        self._written.append(info)
        self._writer = ListWriter()


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
