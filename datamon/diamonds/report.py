"""What the store knows about one diamond, gathered for a person: who was slow, what conflicts, what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from datamon.bundles.catalog import get_bundle
from datamon.bundles.model import Bundle, LeftOut
from datamon.bundles.reader import BundleReader
from datamon.content.entry import Entry
from datamon.core.errors import NotFound
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.core.names import only_name, sort_key, with_prefix
from datamon.diamonds.catalog import get_diamond, list_splits, split_lists
from datamon.diamonds.model import Diamond, Split, SplitState
from datamon.diamonds.selection import left_out_splits
from datamon.merge.modes import ConflictMode
from datamon.stores.context import Context

NAMED = 1_000  # conflicts that are spelled out; all are counted
WINNERS = 100  # and how many of them have their winner named, which is looked for in all splits


@dataclass(frozen=True, slots=True)
class Lost:
    """A version that lost, and is kept in the bundle. `winner` is the split that won, if that is known."""

    name: str
    split: SplitId
    size: int
    winner: SplitId | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about one diamond."""

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
    """Gather the report. Without a bundle, the splits left out are those that have failed so far."""
    described = get_diamond(context, repo, diamond)
    splits = sorted(list_splits(context, repo, diamond), key=lambda split: (split.position, split.created))
    bundle = _bundle(context, described)
    if bundle is None:
        failed = left_out_splits((split.id, split) for split in splits if split.state is SplitState.FAILED)
        return Report(described, splits, None, failed)
    lost: list[Lost] = []
    counts: Counter[SplitId] = Counter()
    for one in _lost(context, bundle):
        counts[one.split] += 1
        if len(lost) < NAMED:
            lost.append(replace(one, winner=_winner(context, bundle, splits, one)) if len(lost) < WINNERS else one)
    return Report(described, splits, bundle, bundle.origin.left_out, lost, counts)


def _bundle(context: Context, diamond: Diamond) -> Bundle | None:
    try:
        return get_bundle(context, diamond.repo, diamond.bundle) if diamond.bundle else None
    except NotFound:
        return None


def _winner(context: Context, bundle: Bundle, splits: list[Split], lost: Lost) -> SplitId | None:
    """The split whose version of a name is in the bundle. None if something else is in its place, or it is gone."""
    names = only_name(sort_key(lost.name))
    there = next(BundleReader(context, bundle).entries(names), None)
    if there is None:
        return None
    for split in splits:
        if split.id != lost.split and split.state is SplitState.DONE:
            held = next(split_lists(context, split).entries(names), None)
            if isinstance(held, Entry) and (held.hash, held.timestamp) == (there.hash, there.timestamp):
                return split.id
    return None


def _lost(context: Context, bundle: Bundle) -> Iterator[Lost]:
    for mode in (ConflictMode.KEEP, ConflictMode.CHECKPOINTS):
        for entry in BundleReader(context, bundle).entries(with_prefix(f"{mode.folder}/")):
            _, split, name = entry.name.split("/", 2)
            yield Lost(name, SplitId(split), entry.size)
