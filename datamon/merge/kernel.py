"""From the lists of all inputs to the lists of a bundle: one task's work, and putting all results together.

    lists (sorted, disjoint within an input) -> a range of names -> rules -> lists of the bundle, under their digests

Entries go from store to store; only reports and references come back. A range writes the same bytes however often and
wherever it is merged, so a repeated task finds its lists there and is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from datamon.core.errors import AlreadyExists, CorruptObject
from datamon.core.names import NameRange, ancestors, inside_folder, sort_key
from datamon.core.task_progress import ReportProgress, ignore_progress
from datamon.core.text import quoted
from datamon.lists.format import Block, RawBlock, Rows, moved_below, no_rows
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.lists.writer import ListWriter
from datamon.merge.changes import Changes
from datamon.merge.inputs import InputId, MergeTask
from datamon.merge.modes import ConflictMode
from datamon.merge.overlay import Delta, lay_over
from datamon.merge.ranges import Part, Work, plan_merge
from datamon.merge.rules import Settled, Version
from datamon.merge.strips import Outcome
from datamon.stores import keys
from datamon.stores.context import Context
from datamon.stores.protocol import create_same

NAMED = 5  # how many inputs of a conflicting name are spelled out
SAMPLE = 100  # how many conflicting names an error or report spells out


@dataclass(frozen=True, slots=True)
class RangeReport:
    """The result of one range."""

    files: int = 0
    bytes: int = 0
    conflicts: int = 0
    sample: list[str] = field(default_factory=list)
    lists: list[ListRef] = field(default_factory=list)


def work_of(task: MergeTask, context: Context) -> list[Work]:
    """The work of a merge. The heads of lists are read to cut it, but only marks are kept of them."""
    folders: list[NameRange] = []  # what lies below files of the base that were found so far

    def is_below_base_file(key: str) -> bool:
        if folders and folders[-1].holds(key):  # keys come in order, and there may be many below one file
            return True
        responsible = [one for one in task.base if not one.lost and one.start < key]
        if not responsible:
            return False
        before = _open_base(max(responsible, key=lambda one: one.start), context).last_before(key)
        folders.extend(inside_folder(folder) for folder in ancestors(key) if folder in before.keys)
        return bool(folders) and folders[-1].holds(key)

    return plan_merge(task, lambda pair: pair[0].open(pair[1], context).head.blocks, is_below_base_file)


def merge_part(
    part: Part, task: MergeTask, context: Context, report_progress: ReportProgress = ignore_progress
) -> RangeReport:
    """Settle a range of names and write its file lists: those of what won, and apart from them those of what lost."""
    store = partial(_store, context)
    report, _ = _merge(part, task, context, store)
    report_progress(report.files, report.bytes, 0)
    return report


def check_part(
    part: Part, task: MergeTask, context: Context, report_progress: ReportProgress = ignore_progress
) -> RangeReport:
    """Count what a range would become; write nothing."""
    report, contested = preview_part(part, task, context)
    report_progress(report.files, report.bytes, 0)
    return replace(report, lists=[], sample=[_described(one) for one in contested[:SAMPLE]])


def preview_part(part: Part, task: MergeTask, context: Context) -> tuple[RangeReport, list[Settled]]:
    """What a range would become, and which names of it are contested."""
    if task.base:
        return _merge(part, task, context, lambda _body, _reference: None)
    files = size = 0
    contested: list[Settled] = []
    for piece in Changes(task, part.names, context, only_look=True).settle():
        if isinstance(piece, Block):
            files, size = files + piece.count, size + piece.bytes
        elif isinstance(piece, Outcome):
            files += len(piece.rows)
            size += sum(piece.rows.sizes)
            contested += piece.contested
    lost = _filed(contested, task.mode)
    size += sum(lost.sizes)
    return RangeReport(files + len(lost), size, _conflicts(contested, task.mode)), contested


def seams(references: Sequence[ListRef], task: MergeTask) -> list[list[ListRef]]:
    """The lists of the result in groups, each of which must become one list.

    A list that begins where none should joins the one before it. This happens if the name that a list of the base began
    with is gone, and the range before it ended there.
    """
    groups: list[list[ListRef]] = []
    for reference in references:
        if groups and not task.sizes.cutting.starts_list(reference.first):
            groups[-1].append(reference)
        else:
            groups.append([reference])
    return groups


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Lists of the result that may have to be written anew.

    Several lists follow each other and must become one. With `replaced_by`, it is one list of versions that lost
    earlier; versions that lost now replace those that are kept under the same names.
    """

    lists: Sequence[ListRef]
    replaced_by: Sequence[ListRef] = ()

    @property
    def is_needed(self) -> bool:
        """Whether anything must be written."""
        return len(self.lists) > 1 or bool(self.replaced_by)


def rewrite_lists(
    rewrite: Rewrite, task: MergeTask, context: Context, report_progress: ReportProgress = ignore_progress
) -> list[ListRef]:
    """Write some lists as they should be cut, and without what is replaced."""
    open_base = partial(_open_base, context=context)
    writer = ListWriter(partial(_store, context), open_base, task.sizes.cutting)
    for reference in rewrite.lists:
        if rewrite.replaced_by:
            names = NameRange(reference.start, reference.end)
            replacing = Delta.of_files(_replacing(names, map(open_base, rewrite.replaced_by)))
            writer.move(replacing.surviving(open_base(reference).rows(), names))
        else:
            writer.refer(reference)
    report_progress(0, 0, 0)
    return _as_lost(writer.finish()) if rewrite.replaced_by else writer.finish()


def _replacing(names: NameRange, lists: Iterable[FileList]) -> Iterator[str]:
    """The sort keys in a range and above it that some lists hold."""
    for listed in lists:
        yield from listed.rows(names).keys
        yield from chain.from_iterable(listed.find(folder).keys for folder in ancestors(names.start))


Store = Callable[[bytes, ListRef], None]


def _merge(part: Part, task: MergeTask, context: Context, store: Store) -> tuple[RangeReport, list[Settled]]:
    open_base = partial(_open_base, context=context)
    won, lost = (ListWriter(store, open_base, task.sizes.cutting) for _ in range(2))
    changes = Changes(task, part.names, context)
    if part.lost is not None:
        delta = Delta.of(changes).without_files()
        lay_over([part.lost], delta, part.names, open_base, lost)
        return _report([], _as_lost(lost.finish())), []
    contested: list[Settled] = []
    if task.base:
        delta = Delta.of(changes)
        contested = delta.contested
        met = [one for one in task.base if not one.lost and one.meets(part.names)]
        lay_over(sorted(met, key=lambda one: one.start), delta, part.names, open_base, won)
    else:
        for piece in changes.settle():
            if isinstance(piece, RawBlock):
                won.copy(piece)
            elif isinstance(piece, Outcome):
                won.move(piece.rows, piece.block_starts)
                contested += piece.contested
            del piece  # before the next one is made, so that it gets the same memory
    lost.move(_filed(contested, task.mode))
    return _report(won.finish(), _as_lost(lost.finish()), _conflicts(contested, task.mode)), contested


def _store(context: Context, body: bytes, reference: ListRef) -> None:
    key = keys.file_list(reference.digest)
    try:
        create_same(context.metadata, key, body)
    except AlreadyExists:
        raise CorruptObject(key, "its bytes do not match its digest") from None


def _open_base(reference: ListRef, context: Context) -> FileList:
    return FileList.stored(context.metadata, keys.file_list(reference.digest), reference)


def lost_name(version: Version, mode: ConflictMode) -> str | None:
    """The name that a version that lost is kept under, filed under its own input; None if it is not kept."""
    return f"{mode.folder}/{version.input}/{version.name}" if mode.folder is not None and not version.deleted else None


def _filed(contested: Iterable[Settled], mode: ConflictMode) -> Rows:
    """The versions that lost as they are kept, in name order. They come by name, so they are sorted by input only."""
    if mode.folder is None:
        return no_rows()
    versions = (version for settled in contested for version in settled.conflicts if not version.deleted)
    lost = sorted(versions, key=lambda version: version.input)
    folders = [f"{mode.folder}/{version.input}" for version in lost]
    return Rows(
        [sort_key(f"{folder}/{version.name}") for folder, version in zip(folders, lost, strict=True)],
        [version.size for version in lost],
        [moved_below(folder, version.line) for folder, version in zip(folders, lost, strict=True)],
        [version.place for version in lost],
    )


def _as_lost(references: Iterable[ListRef]) -> list[ListRef]:
    return [replace(reference, lost=True) for reference in references]


def _report(won: list[ListRef], lost: list[ListRef], conflicts: int = 0) -> RangeReport:
    lists = [*won, *lost]
    return RangeReport(sum(one.count for one in lists), sum(one.bytes for one in lists), conflicts, lists=lists)


def _conflicts(settled: Iterable[Settled], mode: ConflictMode) -> int:
    return sum(len(one.conflicts) for one in settled) if mode is not ConflictMode.IGNORE else 0


def describe_contest(name: str, losers: Iterable[InputId], winner: InputId, *, overruled: bool) -> str:
    """A name that inputs do not agree on, with those inputs, as part of a sentence."""
    if overruled:
        return f"{quoted(name)} (split {_few(losers)}, against a file or folder in its place of {winner})"
    return f"{quoted(name)} (splits {_few({*losers, winner})})"


def _described(settled: Settled) -> str:
    name, losers = settled.conflicts[0].name, (version.input for version in settled.conflicts)
    return describe_contest(name, losers, settled.source, overruled=settled.winner is None)


def _few(inputs: Iterable[InputId]) -> str:
    """Some of many inputs: a hundred names of two thousand splits each would be too much for one answer."""
    named = sorted(inputs)
    return ", ".join(named[:NAMED]) + (f" and {len(named) - NAMED} more" if len(named) > NAMED else "")


def in_name_order(references: Iterable[ListRef]) -> list[ListRef]:
    """The lists of a bundle as its descriptor has them: in name order, and after them those of versions that lost."""
    return sorted(references, key=lambda one: (one.lost, one.start, sort_key(one.last), one.digest))


def whole_merge(task: MergeTask, context: Context, names: Sequence[NameRange] | None = None) -> list[ListRef]:
    """Merge everything in this process, cut as usual or into the given ranges. Spark does the same in tasks."""
    work: list[Work] = [Part(one) for one in names] if names is not None else work_of(task, context)
    reports = [merge_part(one, task, context) for one in work if isinstance(one, Part)]
    return assembled(work, reports, task, lambda rewrites: [rewrite_lists(one, task, context) for one in rewrites])


RewriteAll = Callable[[list[Rewrite]], list[list[ListRef]]]


def assembled(
    work: Iterable[Work], reports: Iterable[RangeReport], task: MergeTask, rewrite_all: RewriteAll
) -> list[ListRef]:
    """The lists of the result in order, from the results of all work. `reports` are those of the parts, in order."""
    won: list[ListRef] = []
    lost_earlier: list[ListRef] = []
    lost_now: list[ListRef] = []
    reported = iter(reports)
    for one in work:
        earlier = one.lost is not None if isinstance(one, Part) else one.lost
        for reference in next(reported).lists if isinstance(one, Part) else [one]:
            (lost_earlier if earlier else lost_now if reference.lost else won).append(reference)
    rewrites = [Rewrite(group) for group in seams(in_name_order(won), task)]
    rewrites += [Rewrite([one], [other for other in lost_now if _may_replace(other, one)]) for one in lost_earlier]
    needed = [one for one in rewrites if one.is_needed]
    rewritten = iter(rewrite_all(needed) if needed else [])
    lists = [reference for one in rewrites for reference in (next(rewritten) if one.is_needed else one.lists)]
    return in_name_order([*lists, *lost_now])


def _may_replace(newer: ListRef, older: ListRef) -> bool:
    """Whether a list may hold names of another one, or names of folders above all of it."""
    folders = ancestors(older.start)
    last = sort_key(newer.last)
    return newer.meets(NameRange(older.start, older.end)) or any(newer.start <= folder <= last for folder in folders)
