"""Taking up a diamond whose workflow is gone, from what the store says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from temporalio import activity

from datamon.activities.contracts.commit import BundleReport
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.model import Diamond, SplitState


@dataclass(frozen=True)
class TakeUp:
    """A diamond to take up. Splits that were running fail with this `reason`."""

    repo: RepoName
    diamond: DiamondId
    now: str
    reason: str
    epoch: str


@dataclass(frozen=True)
class RecoveredSplit:
    """A split that has ended. `stopped`: it was running until its diamond was taken up."""

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
    request: str = ""


@dataclass(frozen=True)
class TakenUp:
    """A diamond as it was last published. `made` is the bundle that was being made, if it exists by now."""

    diamond: Diamond
    made: BundleReport | None = None
    splits: list[RecoveredSplit] = field(default_factory=list)


class RecoveryActivities(ABC):
    """Reads the store, and settles what was under way."""

    @activity.defn
    @abstractmethod
    def take_up(self, request: TakeUp) -> TakenUp:
        """Find out how far a diamond got. From here on, nobody who works for its lost workflow can publish anything."""
