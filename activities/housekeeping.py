"""Removing what is left in the store of diamonds that have ended, a repo at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from temporalio import activity

from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.housekeeping import Finding, Limits, Verdict, findings, remove
from datamon.ids import DiamondId, RepoName
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

    def with_one(self, found: Finding, objects: int) -> TidyReport:
        """The report with one more diamond."""
        return replace(
            self,
            removed=self.removed + (found.verdict is Verdict.REMOVE),
            objects=self.objects + objects,
            kept=self.kept + (found.verdict is Verdict.KEEP),
            abandoned=self.abandoned + (found.verdict is Verdict.ABANDONED),
            findings=[*self.findings, found] if len(self.findings) < TOLD else self.findings,
        )


class HousekeepingActivities:
    """Works with the janitor's own credentials, where it has some."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @activity.defn
    def list_repos(self, after: str) -> list[RepoName]:
        """The next names of repos."""
        with wire_errors(patient=True):
            names = (name for name in self._context.metadata.folders(keys.REPOS) if name > after)
            return [RepoName(name) for name in islice(names, REPOS_AT_ONCE)]

    @activity.defn
    def tidy_repo(self, request: TidyRepo) -> TidyReport:
        """Remove what may go. An attempt that takes over goes on behind the last diamond that was done."""
        report, after = _last_attempt()
        with wire_errors():
            catalog.get_repo(self._context, request.repo)
            for found in findings(self._context, request.repo, request.limits, after):
                _beat(report, after)
                gone = found.verdict is Verdict.REMOVE and not request.dry_run
                objects = remove(self._context, found, lambda: _beat(report, after)) if gone else 0  # noqa: B023
                report, after = report.with_one(found, objects), found.diamond
        return report


def _beat(report: TidyReport, after: str) -> None:
    activity.heartbeat({"after": after, "report": asdict(report)})


def _last_attempt() -> tuple[TidyReport, str]:
    """How far the attempt before this one got."""
    details = activity.info().heartbeat_details
    if not details:
        return TidyReport(), ""
    told: dict[str, Any] = details[0]["report"]
    found = [Finding(**{**one, "verdict": Verdict(one["verdict"])}) for one in told["findings"]]
    return TidyReport(**{**told, "findings": found}), DiamondId(details[0]["after"])
