"""Taking up a diamond whose workflow is gone, from what the store says."""

from __future__ import annotations

from temporalio import activity

from datamon.activities.contracts import recovery as contract
from datamon.activities.contracts.commit import BundleReport
from datamon.activities.contracts.recovery import RecoveredSplit, TakenUp, TakeUp
from datamon.activities.failures import errors_as_failures
from datamon.activities.heartbeat import heartbeating
from datamon.activities.registry import ActivityGroup, Resources
from datamon.bundles.catalog import give_up_bundle
from datamon.core.concurrency import map_concurrently
from datamon.core.errors import CorruptObject, NotFound, StaleWrite, WrongState
from datamon.core.ids import SplitId
from datamon.core.text import REASON_BYTES, shortened
from datamon.diamonds.catalog import end_split, get_diamond, get_split, take_up
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.stores import keys
from datamon.stores.context import Context

TAG_BYTES = 120  # of a tag, when a diamond is taken up with all of its splits


class RecoveryActivities(contract.RecoveryActivities, ActivityGroup):
    """See the contract."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @classmethod
    def build(cls, resources: Resources) -> RecoveryActivities:
        """See ActivityGroup."""
        return cls(resources.context)

    @activity.defn
    def take_up(self, request: TakeUp) -> TakenUp:
        """See the contract."""
        with errors_as_failures(), heartbeating(activity.heartbeat):
            diamond = get_diamond(self._context, request.repo, request.diamond)
            if diamond.state.ended:
                raise WrongState("diamond", diamond.id, diamond.state, "there is nothing to recover")
            if diamond.epoch == request.epoch and diamond.updated != request.now:
                raise StaleWrite(keys.diamond(diamond.repo, diamond.id))  # another attempt of ours has finished
            diamond = take_up(self._context, diamond, request.epoch, request.now)
            names = self._context.vmetadata.folders(keys.splits(diamond.repo, diamond.id))
            settled = map_concurrently(names, lambda name: self._settled(name, request))
            splits = sorted(
                (split for split in settled if split is not None),
                key=lambda split: (split.position, split.created, split.id),
            )
            return TakenUp(diamond, self._made(diamond), splits)

    def _settled(self, name: str, request: TakeUp) -> RecoveredSplit | None:
        """A split that has ended, or is ended now. One with a damaged descriptor counts as failed."""
        try:
            return self._recovered(get_split(self._context, request.repo, request.diamond, SplitId(name)), request)
        except NotFound:
            return None
        except CorruptObject as error:
            reason = shortened(str(error), REASON_BYTES)
            return RecoveredSplit(SplitId(name), SplitState.FAILED, 0, 0, request.now, 0, 0, reason, "", stopped=False)

    def _recovered(self, split: Split, request: TakeUp) -> RecoveredSplit:
        key, ended = keys.split(split.repo, split.diamond, split.id), split
        if split.state is SplitState.RUNNING and split.epoch == request.epoch:
            raise StaleWrite(key)  # it was started after this recovery, so this attempt woke up late
        if split.state is SplitState.RUNNING:
            ended = end_split(self._context.vmetadata, key, split.generation, request.now, request.reason)
        return RecoveredSplit(
            id=ended.id,
            state=ended.state,
            generation=ended.generation,
            position=ended.position,
            created=ended.created,
            files=ended.files,
            bytes=ended.bytes,
            reason=shortened(ended.reason, REASON_BYTES),
            tag=shortened(ended.tag, TAG_BYTES),
            stopped=ended.reason == request.reason,
            request=ended.request,
        )

    def _made(self, diamond: Diamond) -> BundleReport | None:
        """The bundle that was being made, if it exists by now. If it does not, it never will."""
        if diamond.state is not DiamondState.COMMITTING or diamond.making is None:
            return None
        made = give_up_bundle(self._context, diamond.repo, diamond.making)
        return BundleReport.of(made) if made else None
