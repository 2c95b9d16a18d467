"""Publishing the state of diamonds, splits and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from temporalio import activity

from datamon.bundles.model import Label
from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.diamonds.model import Diamond, Split, SplitState


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
    """A split whose workflow is gone without a report."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    ended: str
    reason: str
    epoch: str = ""


@dataclass(frozen=True)
class EndedSplit:
    """How a split ended, according to the store."""

    state: SplitState
    reason: str
    files: int = 0
    bytes: int = 0


class MetadataActivities(ABC):
    """Small, quick writes to the store. Every one is conditional, so a late one changes nothing."""

    @activity.defn
    @abstractmethod
    def open_diamond(self, diamond: Diamond) -> None:
        """Put diamond.yaml for the first time, or refuse an id that is taken."""

    @activity.defn
    @abstractmethod
    def publish_diamond(self, diamond: Diamond) -> None:
        """Put the next revision of diamond.yaml."""

    @activity.defn
    @abstractmethod
    def start_split(self, split: Split) -> BundleId | None:
        """Put split.yaml for a new generation, and remove the lists of older ones. Gives the repo's newest bundle."""

    @activity.defn
    @abstractmethod
    def finish_split(self, finish: FinishSplit) -> None:
        """Record in split.yaml how the split ended, and keep what the upload recorded there."""

    @activity.defn
    @abstractmethod
    def end_split(self, end: EndSplit) -> EndedSplit:
        """Find out how a split whose workflow is gone has ended. If it has not ended, mark it as failed."""

    @activity.defn
    @abstractmethod
    def fail_splits(self, splits: list[Split]) -> None:
        """Put split.yaml of splits that were never started."""

    @activity.defn
    @abstractmethod
    def set_label(self, label: Label) -> None:
        """Point a label to a bundle that exists."""
