"""What a commit would do, without doing it: who wins, what is contested, what is left out.

Works like the commit itself, over the same ranges and by the same rules, but keeps only what is contested. Lists
that no other split comes near are counted unopened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from datamon.commit import MergeTask, look_at, lost_name, ranges_to_merge, read_splits, winner_of
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.merge import Settled
from datamon.model import ConflictMode, LeftOut, Order, TakenSplit
from datamon.stores import Context


@dataclass(frozen=True, slots=True)
class Loser:
    """A version that would lose, and under which name it would be kept."""

    split: SplitId
    size: int
    kept_as: str | None


@dataclass(frozen=True, slots=True)
class Contest:
    """A name that splits do not agree on. Overruled: the winner has a file or folder in its place."""

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
    task = MergeTask(repo, diamond, BundleId(""), mode, order, taken, {split.id: split.lists for split in splits})
    seen = Preview(repo, diamond, mode, order, left_out=left_out)
    lost: Counter[SplitId] = Counter()
    for part in ranges_to_merge(task, context):
        report, settled = look_at(part, task, context)
        seen.files, seen.bytes = seen.files + report.files, seen.bytes + report.bytes
        seen.conflicts += report.conflicts
        for one in settled:
            lost.update(version.split for version in one.conflicts)
        seen.contested += (_contest(one, mode) for one in settled)
    seen.splits = [Share(split.id, split.tag, split.files, lost[split.id]) for split in splits]
    return seen


def _contest(settled: Settled, mode: ConflictMode) -> Contest:
    losers = [Loser(v.split, v.entry.size, lost_name(v, mode)) for v in settled.conflicts]
    return Contest(settled.conflicts[0].entry.name, winner_of(settled), settled.winner is None, losers)
