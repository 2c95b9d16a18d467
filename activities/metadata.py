"""Publishing the state of diamonds and splits. Every write is conditional, so a late one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from temporalio import activity

from activities.wire import wire_errors
from datamon import catalog, descriptors, keys
from datamon.errors import AlreadyExists
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.model import Diamond, Split, SplitState
from datamon.stores import Context, create_same


@dataclass(frozen=True)
class FinishSplit:
    """How one generation of a split ended."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    state: SplitState
    ended: str
    reason: str = ""


class MetadataActivities:
    """Small, quick writes to the store."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @activity.defn
    def open_diamond(self, diamond: Diamond) -> None:
        """Put diamond.yaml for the first time. This, not Temporal, is what makes an id unique for ever."""
        with wire_errors():
            catalog.get_repo(self._context, diamond.repo)
            try:
                create_same(self._context.vmetadata, keys.diamond(diamond.repo, diamond.id), descriptors.dump(diamond))
            except AlreadyExists:
                raise catalog.diamond_exists(diamond.id) from None

    @activity.defn
    def publish_diamond(self, diamond: Diamond) -> None:
        """Put the next revision of diamond.yaml."""
        with wire_errors():
            catalog.publish(self._context.vmetadata, keys.diamond(diamond.repo, diamond.id), diamond)

    @activity.defn
    def start_split(self, split: Split) -> BundleId | None:
        """Put split.yaml for a new generation, and scratch the lists of older ones. Gives the repo's newest bundle."""
        with wire_errors():
            key = keys.split(split.repo, split.diamond, split.id)
            catalog.publish(self._context.vmetadata, key, split)
            if split.generation > 1:
                self._scratch_lists_before(split)
            return catalog.newest_bundle(self._context, split.repo)

    @activity.defn
    def finish_split(self, finish: FinishSplit) -> None:
        """Put how the split ended over split.yaml, keeping what the upload recorded there."""
        key = keys.split(finish.repo, finish.diamond, finish.split)

        def end(split: Split) -> Split:
            if (split.state, split.ended) == (finish.state, finish.ended):  # an earlier attempt of ours
                return split
            state = split.state.advance(finish.state, finish.split)
            return replace(split, state=state, ended=finish.ended, reason=finish.reason)

        with wire_errors():
            catalog.revise_split(self._context.vmetadata, key, finish.generation, end)

    def _scratch_lists_before(self, split: Split) -> None:
        """Only those of older generations: an attempt that wakes up late must not touch what came after it."""
        folder = keys.split_folder(split.repo, split.diamond, split.id)
        for key in list(self._context.vmetadata.keys(folder)):
            generation = keys.split_generation(key)
            if generation is not None and generation < split.generation:
                self._context.vmetadata.delete(key)
