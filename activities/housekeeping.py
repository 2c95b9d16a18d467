"""Removing what is left in the store of diamonds that have ended, a repo at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import islice

import msgspec
from temporalio import activity

from activities.heart import beating
from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.housekeeping import Finding, Limits, Verdict, findings, remove
from datamon.ids import RepoName
from datamon.stores import Context

REPOS_AT_ONCE = 500  # names in one message
TOLD = 200  # how many diamonds a report names


@dataclass(frozen=True)
class TidyRepo:
    """A repo to tidy; or, in a dry run, only to look at."""

    repo: RepoName
    limits: Limits
    dry_run: bool = False


@dataclass(frozen=True)
class TidyReport:
    """What tidying came to, and the first diamonds that it is about."""

    removed: int = 0
    objects: int = 0
    kept: int = 0
    abandoned: int = 0
    findings: list[Finding] = field(default_factory=list)
    after: str = ""  # the last diamond that was dealt with

    def with_one(self, found: Finding, objects: int) -> TidyReport:
        """The report with one more diamond."""
        return replace(
            self,
            removed=self.removed + (found.verdict is Verdict.REMOVE),
            objects=self.objects + objects,
            kept=self.kept + (found.verdict is Verdict.KEEP),
            abandoned=self.abandoned + (found.verdict is Verdict.ABANDONED),
            findings=[*self.findings, found] if len(self.findings) < TOLD else self.findings,
            after=found.diamond,
        )


class HousekeepingActivities:
    """Works with the janitor's own credentials, where it has some."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @activity.defn
    def list_repos(self, after: str) -> list[RepoName]:
        """The next names of repos."""
        with wire_errors():
            names = (name for name in self._context.metadata.folders(keys.REPOS) if name > after)
            return [RepoName(name) for name in islice(names, REPOS_AT_ONCE)]

    @activity.defn
    def tidy_repo(self, request: TidyRepo) -> TidyReport:
        """Remove what may go. An attempt that takes over goes on behind the last diamond that was done."""
        report = _last_attempt()
        with wire_errors(), beating(lambda: activity.heartbeat(asdict(report))):
            catalog.get_repo(self._context, request.repo)
            for found in findings(self._context, request.repo, request.limits, report.after):
                gone = found.verdict is Verdict.REMOVE and not request.dry_run
                report = report.with_one(found, remove(self._context, found) if gone else 0)
        return report


def _last_attempt() -> TidyReport:
    """How far the attempt before this one got."""
    details = activity.info().heartbeat_details
    return msgspec.convert(details[0], TidyReport) if details else TidyReport()
