"""Making a bundle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from temporalio import activity

from datamon.bundles.model import Bundle, LeftOut, TakenSplit
from datamon.core.ids import BundleId, DiamondId, RepoName
from datamon.merge.modes import ConflictMode, Order


@dataclass(frozen=True)
class MakeBundle:
    """A bundle to be made of splits that are done."""

    repo: RepoName
    diamond: DiamondId
    bundle: BundleId
    message: str
    created: str
    mode: ConflictMode
    order: Order
    splits: list[TakenSplit]
    left_out: list[LeftOut]
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BundleReport:
    """A bundle in numbers."""

    files: int
    bytes: int
    conflicts: int

    @classmethod
    def of(cls, bundle: Bundle) -> BundleReport:
        """The report on a bundle that exists."""
        return cls(bundle.files, bundle.bytes, bundle.conflicts + bundle.checkpoints)


@dataclass(frozen=True)
class GiveUpBundle:
    """A bundle whose making failed."""

    repo: RepoName
    bundle: BundleId


class CommitActivities(ABC):
    """Metadata only: no content is read or written."""

    @activity.defn
    @abstractmethod
    def make_bundle(self, request: MakeBundle) -> BundleReport:
        """Merge, then publish. A repeated attempt finds the lists and bundle.yaml of the first and answers the same."""

    @activity.defn
    @abstractmethod
    def give_up_bundle(self, request: GiveUpBundle) -> BundleReport | None:
        """Prevent an attempt that wakes up late from making the bundle. If one already has, report on the bundle."""
