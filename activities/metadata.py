"""Publishing the state of diamonds, splits and labels. Every write is conditional, so a late one changes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from temporalio import activity

from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.errors import CorruptObject, NotFound, StaleWrite, StoreRefused
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.labels import set_label
from datamon.model import Diamond, DiamondState, Label, Split, SplitState
from datamon.stores import Context


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
    epoch: str = ""


@dataclass(frozen=True)
class EndSplit:
    """A split whose workflow is gone without a word."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    ended: str
    reason: str
    epoch: str = ""


@dataclass(frozen=True)
class EndedSplit:
    """How a split ended, as the store has it."""

    state: SplitState
    reason: str
    files: int = 0
    bytes: int = 0


class MetadataActivities:
    """Small, quick writes to the store."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @activity.defn
    def open_diamond(self, diamond: Diamond) -> None:
        """Put diamond.yaml for the first time, or refuse an id that was given before."""
        with wire_errors():
            catalog.open_diamond(self._context, diamond)

    @activity.defn
    def publish_diamond(self, diamond: Diamond) -> None:
        """Put the next revision of diamond.yaml. Before a commit nothing is decided: there a refusal is an answer."""
        with wire_errors(patient=diamond.state is not DiamondState.COMMITTING):
            catalog.publish_diamond(self._context, diamond)

    @activity.defn
    def start_split(self, split: Split) -> BundleId | None:
        """Put split.yaml for a new generation, and scratch the lists of older ones. Gives the repo's newest bundle."""
        with wire_errors():
            catalog.check_epoch(self._context, split.repo, split.diamond, split.epoch)
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
            catalog.check_epoch(self._context, finish.repo, finish.diamond, finish.epoch)
            catalog.revise_split(self._context.vmetadata, key, finish.generation, end)

    @activity.defn
    def end_split(self, end: EndSplit) -> EndedSplit:
        """Find out how a split ended whose workflow is gone; if it did not, it is failed from here on."""
        key = keys.split(end.repo, end.diamond, end.split)
        with wire_errors(patient=True):
            try:
                catalog.check_epoch(self._context, end.repo, end.diamond, end.epoch)
                split = catalog.end_split(self._context.vmetadata, key, end.generation, end.ended, end.reason)
            except (NotFound, StaleWrite, CorruptObject):  # it had published nothing, or nothing that counts
                return EndedSplit(SplitState.FAILED, end.reason)
        return EndedSplit(split.state, split.reason, split.files, split.bytes)

    @activity.defn
    def fail_splits(self, splits: list[Split]) -> None:
        """Put split.yaml of splits that never got their turn."""

        def publish(split: Split) -> None:
            with suppress(StaleWrite, CorruptObject):  # a newer generation is there, or what is there is no split
                catalog.publish(self._context.vmetadata, keys.split(split.repo, split.diamond, split.id), split)

        with wire_errors(patient=True):
            for one in splits[:1]:  # all are of one diamond, and of one epoch
                catalog.check_epoch(self._context, one.repo, one.diamond, one.epoch)
            list(catalog.at_once(splits, publish))

    @activity.defn
    def set_label(self, label: Label) -> None:
        """Point a label to a bundle that exists."""
        with wire_errors():
            set_label(self._context, label)

    def _scratch_lists_before(self, split: Split) -> None:
        """Only those of older generations: an attempt that wakes up late must not touch what came after it.

        A worker that may not delete leaves them. Nobody takes them for newer ones, and they go with the diamond.
        """
        folder = keys.split_folder(split.repo, split.diamond, split.id)
        with suppress(StoreRefused):
            for key in list(self._context.vmetadata.keys(folder)):
                generation = keys.split_generation(key)
                if generation is not None and generation < split.generation:
                    self._context.vmetadata.delete(key)
