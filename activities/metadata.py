"""Publishing the state of diamonds, splits and labels. Every write is conditional, so a late one changes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from temporalio import activity

from datamon.activities.contracts import metadata as contract
from datamon.activities.contracts.metadata import EndedSplit, EndSplit, FinishSplit
from datamon.activities.failures import errors_as_failures
from datamon.activities.registry import ActivityGroup, Resources
from datamon.bundles.catalog import newest_bundle
from datamon.bundles.labels import set_label
from datamon.bundles.model import Label
from datamon.core.concurrency import map_concurrently
from datamon.core.errors import CorruptObject, NotFound, StaleWrite, StoreRefused
from datamon.core.ids import BundleId
from datamon.diamonds.catalog import check_epoch, end_split, open_diamond, publish_diamond, revise_split
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.stores import descriptors, keys
from datamon.stores.context import Context
from datamon.stores.published import publish


class MetadataActivities(contract.MetadataActivities, ActivityGroup):
    """See the contract."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @classmethod
    def build(cls, resources: Resources) -> MetadataActivities:
        """See ActivityGroup."""
        return cls(resources.context)

    @activity.defn
    def open_diamond(self, diamond: Diamond) -> None:
        """See the contract."""
        with errors_as_failures():
            open_diamond(self._context, diamond)

    @activity.defn
    def publish_diamond(self, diamond: Diamond) -> None:
        """See the contract. When a commit begins, nothing is decided yet, so a refusal of the store is an answer."""
        with errors_as_failures(patient=diamond.state is not DiamondState.COMMITTING):
            publish_diamond(self._context, diamond)

    @activity.defn
    def start_split(self, split: Split) -> BundleId | None:
        """See the contract."""
        with errors_as_failures():
            check_epoch(self._context, split.repo, split.diamond, split.epoch)
            key = keys.split(split.repo, split.diamond, split.id)
            publish(self._context.vmetadata, key, replace(split, stored=self._stored_before(key, split)))
            if split.generation > 1:
                self._remove_older_lists(split)
            return newest_bundle(self._context, split.repo)

    @activity.defn
    def finish_split(self, finish: FinishSplit) -> None:
        """See the contract."""
        key = keys.split(finish.repo, finish.diamond, finish.split)

        def end(split: Split) -> Split:
            if (split.state, split.ended) == (finish.state, finish.ended):  # an earlier attempt of ours
                return split
            state = split.state.advance(finish.state, finish.split)
            return replace(split, state=state, ended=finish.ended, reason=finish.reason)

        with errors_as_failures():
            check_epoch(self._context, finish.repo, finish.diamond, finish.epoch)
            revise_split(self._context.vmetadata, key, finish.generation, end)

    @activity.defn
    def end_split(self, end: EndSplit) -> EndedSplit:
        """See the contract."""
        key = keys.split(end.repo, end.diamond, end.split)
        with errors_as_failures(patient=True):
            try:
                check_epoch(self._context, end.repo, end.diamond, end.epoch)
                split = end_split(self._context.vmetadata, key, end.generation, end.ended, end.reason)
            except (NotFound, StaleWrite, CorruptObject):  # it had published nothing, or nothing that counts
                return EndedSplit(SplitState.FAILED, end.reason)
        return EndedSplit(split.state, split.reason, split.files, split.bytes)

    @activity.defn
    def fail_splits(self, splits: list[Split]) -> None:
        """See the contract."""

        def publish_one(split: Split) -> None:
            with suppress(StaleWrite, CorruptObject):  # a newer generation is there, or something that is not a split
                publish(self._context.vmetadata, keys.split(split.repo, split.diamond, split.id), split)

        with errors_as_failures(patient=True):
            for one in splits[:1]:  # all are of one diamond, and of one epoch
                check_epoch(self._context, one.repo, one.diamond, one.epoch)
            list(map_concurrently(splits, publish_one))

    @activity.defn
    def set_label(self, label: Label) -> None:
        """See the contract."""
        with errors_as_failures():
            set_label(self._context, label)

    def _stored_before(self, key: str, split: Split) -> int:
        """What older generations of a split have stored."""
        if split.generation == 1:
            return 0
        try:
            before = descriptors.read(Split, self._context.vmetadata, key)
        except (NotFound, CorruptObject):
            return 0
        return before.stored

    def _remove_older_lists(self, split: Split) -> None:
        """Remove the lists of older generations only: an attempt that wakes up late must not touch newer ones.

        A worker that may not delete leaves them. Nobody takes them for newer ones, and they are removed with the
        diamond.
        """
        folder = keys.split_folder(split.repo, split.diamond, split.id)
        with suppress(StoreRefused):
            generations = ((key, keys.split_generation(key)) for key in self._context.vmetadata.keys(folder))
            older = [key for key, generation in generations if generation is not None and generation < split.generation]
            self._context.vmetadata.delete_many(older)
