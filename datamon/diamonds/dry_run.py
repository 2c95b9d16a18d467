"""What a commit would do, without doing it: who wins, what is contested, what is left out.

Works like the commit itself, over the same ranges and by the same rules, but keeps only what is contested. Blocks that
overlap no block of another list are counted undecoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from datamon.bundles.model import LeftOut, TakenSplit
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.commit import merge_task, read_splits
from datamon.merge.kernel import lost_name, preview_part, work_of
from datamon.merge.modes import ConflictMode, Order
from datamon.merge.ranges import Part
from datamon.merge.rules import Settled
from datamon.stores.context import Context


@dataclass(frozen=True, slots=True)
class Loser:
    """A version that would lose, and the name that it would be kept under."""

    split: SplitId
    size: int
    kept_as: str | None


@dataclass(frozen=True, slots=True)
class Contest:
    """A name that splits do not agree on. `overruled`: the winner has a file or folder in its place."""

    name: str
    winner: SplitId
    overruled: bool
    losers: list[Loser]


@dataclass(slots=True)
class Share:
    """What a split would bring in."""

    id: SplitId
    tag: str
    files: int
    conflicts: int = 0  # how many of them would lose and differ


@dataclass(slots=True)
class Preview:
    """A commit that was not made."""

    repo: RepoName
    diamond: DiamondId
    mode: ConflictMode
    order: Order
    files: int = 0
    bytes: int = 0
    conflicts: int = 0
    splits: list[Share] = field(default_factory=list)
    contested: list[Contest] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def preview(
    context: Context,
    repo: RepoName,
    diamond: DiamondId,
    mode: ConflictMode,
    order: Order,
    taken: Sequence[TakenSplit],
    left_out: list[LeftOut],
) -> Preview:
    """What a commit of these splits would do."""
    splits = read_splits(context.vmetadata, repo, diamond, taken)
    task = merge_task(splits, taken, mode, order)
    result = Preview(repo, diamond, mode, order, left_out=left_out)
    lost: Counter[SplitId] = Counter()
    for part in work_of(task, context):
        if not isinstance(part, Part):
            continue  # a list of a base, which a diamond does not have
        report, settled = preview_part(part, task, context)
        result.files, result.bytes = result.files + report.files, result.bytes + report.bytes
        result.conflicts += report.conflicts
        for one in settled:
            lost.update(version.input for version in one.conflicts)
        result.contested += (_contest(one, mode) for one in settled)
    result.splits = [Share(split.id, split.tag, split.files, lost[split.id]) for split in splits]
    return result


def _contest(settled: Settled, mode: ConflictMode) -> Contest:
    losers = [Loser(v.input, v.size, lost_name(v, mode)) for v in settled.conflicts]
    return Contest(settled.conflicts[0].name, settled.source, settled.winner is None, losers)
