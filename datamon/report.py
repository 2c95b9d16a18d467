"""All that the store knows of one diamond, gathered for a person: who was slow, what conflicts, what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from datamon import catalog
from datamon.download import bundle_entries
from datamon.errors import NotFound
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import Bundle, ConflictMode, Diamond, LeftOut, Split, SplitState
from datamon.names import prefixed
from datamon.stores import Context

NAMED = 1_000  # conflicts that are spelled out; all are counted


@dataclass(frozen=True, slots=True)
class Lost:
    """A version that lost, and is kept in the bundle."""

    name: str
    split: SplitId
    size: int


@dataclass(frozen=True, slots=True)
class Report:
    """A diamond, whole."""

    diamond: Diamond
    splits: list[Split]
    bundle: Bundle | None
    left_out: list[LeftOut]
    lost: list[Lost] = field(default_factory=list)  # the first of them, by split and name
    lost_by_split: Counter[SplitId] = field(default_factory=Counter)

    @property
    def conflicts(self) -> int:
        """How many versions lost and are kept."""
        return self.lost_by_split.total()


def report_on(context: Context, repo: RepoName, diamond: DiamondId) -> Report:
    """Gather it. Of a diamond without a bundle, what has failed so far is left out."""
    described = catalog.get_diamond(context, repo, diamond)
    splits = sorted(catalog.splits(context, repo, diamond), key=lambda split: (split.position, split.created))
    bundle = _bundle(context, described)
    if bundle is None:
        failed = [LeftOut(split.id, split.state, split.reason) for split in splits if split.state is SplitState.FAILED]
        return Report(described, splits, None, failed)
    lost: list[Lost] = []
    counts: Counter[SplitId] = Counter()
    for one in _lost(context, bundle):
        counts[one.split] += 1
        if len(lost) < NAMED:
            lost.append(one)
    return Report(described, splits, bundle, bundle.diamond.left_out, lost, counts)


def _bundle(context: Context, diamond: Diamond) -> Bundle | None:
    try:
        return catalog.get_bundle(context, diamond.repo, diamond.bundle) if diamond.bundle else None
    except NotFound:
        return None


def _lost(context: Context, bundle: Bundle) -> Iterator[Lost]:
    for mode in (ConflictMode.KEEP, ConflictMode.CHECKPOINTS):
        for entry in bundle_entries(context, bundle, prefixed(f"{mode.folder}/")):
            _, split, name = entry.name.split("/", 2)
            yield Lost(name, SplitId(split), entry.size)
