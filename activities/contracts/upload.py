"""Uploading a split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from temporalio import activity

from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.sources.skipped import Skipped
from datamon.sources.source import Source


@dataclass(frozen=True)
class UploadSplit:
    """One generation of a split to upload. What the bundle `base` holds need not be stored again."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    source: Source
    base: BundleId | None = None


@dataclass(frozen=True)
class UploadReport:
    """The result of an upload."""

    files: int
    bytes: int
    stored: int
    skipped: int
    reserved: list[str] = field(default_factory=list)
    skipped_sample: list[Skipped] = field(default_factory=list)
    links_followed: int = 0


class UploadActivities(ABC):
    """Runs where the source is."""

    @activity.defn
    @abstractmethod
    def upload_split(self, request: UploadSplit) -> UploadReport:
        """Store the files of a source and their lists. A repeated attempt continues where the last one ended."""
