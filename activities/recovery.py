"""Taking up a diamond whose workflow is gone, from what the store says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from temporalio import activity

from activities.commit import BundleReport
from activities.heart import beating
from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, NotFound, StaleWrite, WrongState
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import Diamond, DiamondState, Split, SplitState
from datamon.stores import Context

REASON = 300  # characters of a reason that go through Temporal; split.yaml has all of it
REASON_BYTES = 480  # and what they take there, where a letter that is not ASCII takes six or twelve
TAG_BYTES = 120  # of a tag, when a diamond is taken up with all of its splits


@dataclass(frozen=True)
class TakeUp:
    """A diamond to take up, and why splits that were running are failed."""

    repo: RepoName
    diamond: DiamondId
    now: str
    reason: str
    epoch: str


@dataclass(frozen=True)
class FoundSplit:
    """A split that has ended. `stopped`: only now, by taking up its diamond."""

    id: SplitId
    state: SplitState
    generation: int
    position: int
    created: str
    files: int
    bytes: int
    reason: str
    tag: str
    stopped: bool


@dataclass(frozen=True)
class TakenUp:
    """A diamond as it was last published. `made` is the bundle that was being made, if that had come to an end."""

    diamond: Diamond
    made: BundleReport | None = None
    splits: list[FoundSplit] = field(default_factory=list)


class RecoveryActivities:
    """Reads the store, and settles what was under way."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @activity.defn
    def take_up(self, request: TakeUp) -> TakenUp:
        """Find what a diamond came to. Whoever still works for its lost workflow can publish nothing from here on."""
        with wire_errors(), beating(activity.heartbeat):
            diamond = catalog.get_diamond(self._context, request.repo, request.diamond)
            if diamond.state.ended:
                raise WrongState("diamond", diamond.id, diamond.state, "there is nothing to recover")
            if diamond.epoch == request.epoch and diamond.updated != request.now:
                raise StaleWrite(keys.diamond(diamond.repo, diamond.id))  # another attempt of ours came to an end
            diamond = catalog.take_up(self._context, diamond, request.epoch, request.now)
            names = self._context.vmetadata.folders(keys.splits(diamond.repo, diamond.id))
            found = [split for split in at_once(names, lambda name: self._settled(name, request)) if split is not None]
            found.sort(key=lambda split: (split.position, split.created, split.id))
            return TakenUp(diamond, self._made(diamond), found)

    def _settled(self, name: str, request: TakeUp) -> FoundSplit | None:
        """A split that has ended, if need be only now. One that is damaged counts as failed."""
        try:
            return self._found(catalog.get_split(self._context, request.repo, request.diamond, SplitId(name)), request)
        except NotFound:
            return None
        except CorruptObject as error:
            why = shortened(str(error))
            return FoundSplit(SplitId(name), SplitState.FAILED, 0, 0, request.now, 0, 0, why, "", stopped=False)

    def _found(self, split: Split, request: TakeUp) -> FoundSplit:
        key, ended = keys.split(split.repo, split.diamond, split.id), split
        if split.state is SplitState.RUNNING and split.epoch == request.epoch:
            raise StaleWrite(key)  # it was started after this very recovery: this attempt woke up late
        if split.state is SplitState.RUNNING:
            ended = catalog.end_split(self._context.vmetadata, key, split.generation, request.now, request.reason)
        return FoundSplit(
            id=ended.id,
            state=ended.state,
            generation=ended.generation,
            position=ended.position,
            created=ended.created,
            files=ended.files,
            bytes=ended.bytes,
            reason=shortened(ended.reason),
            tag=shortened(ended.tag, TAG_BYTES),
            stopped=ended.reason == request.reason,
        )

    def _made(self, diamond: Diamond) -> BundleReport | None:
        """A bundle that was being made exists by now, or never will."""
        if diamond.state is not DiamondState.COMMITTING or diamond.making is None:
            return None
        made = catalog.give_up_bundle(self._context, diamond.repo, diamond.making)
        return BundleReport.of(made) if made else None


def shortened(text: str, most: int = REASON_BYTES) -> str:
    """As much of a text as goes through Temporal: all splits of a diamond may have one, and share a payload.

    There it is JSON, with nothing but ASCII in it.
    """
    text = text[:REASON]
    while (size := len(json.dumps(text))) > most:
        text = text[: len(text) * most // size]
    return text
