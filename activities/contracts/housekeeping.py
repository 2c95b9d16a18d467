"""Removing what is left in the store of diamonds that have ended, a repo at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

from temporalio import activity

from datamon.core.ids import RepoName
from datamon.diamonds.findings import Finding, Limits, Verdict

NAMED = 200  # how many diamonds a report names


@dataclass(frozen=True)
class CleanRepo:
    """A repo to clean up; or, in a dry run, only to look at."""

    repo: RepoName
    limits: Limits
    dry_run: bool = False


@dataclass(frozen=True)
class RepoReport:
    """The result of cleaning up a repo: counts, and the first diamonds concerned."""

    removed: int = 0
    objects: int = 0
    kept: int = 0
    abandoned: int = 0
    findings: list[Finding] = field(default_factory=list)
    after: str = ""  # the last diamond that was dealt with

    def with_one(self, finding: Finding, objects: int) -> RepoReport:
        """The report with one more diamond."""
        return replace(
            self,
            removed=self.removed + (finding.verdict is Verdict.REMOVE),
            objects=self.objects + objects,
            kept=self.kept + (finding.verdict is Verdict.KEEP),
            abandoned=self.abandoned + (finding.verdict is Verdict.ABANDONED),
            findings=[*self.findings, finding] if len(self.findings) < NAMED else self.findings,
            after=finding.diamond,
        )


class HousekeepingActivities(ABC):
    """Uses the credentials of housekeeping, if it has its own."""

    @activity.defn
    @abstractmethod
    def list_repos(self, after: str) -> list[RepoName]:
        """The names of the next repos after `after`."""

    @activity.defn
    @abstractmethod
    def clean_repo(self, request: CleanRepo) -> RepoReport:
        """Remove what may be removed. An attempt that takes over continues after the last diamond that was done."""
