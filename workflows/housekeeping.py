"""HousekeepingWorkflow: goes through all repos and removes what is left of diamonds that ended long ago."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from datamon.activities.contracts.housekeeping import NAMED, CleanRepo, HousekeepingActivities, RepoReport
    from datamon.activities.failures import from_failure
    from datamon.core.ids import RepoName
    from datamon.core.instants import instant
    from datamon.diamonds.findings import Finding, Limits
    from datamon.workflows.common.details import table
    from datamon.workflows.common.options import Options
    from datamon.workflows.common.retries import ShowsRetries, describe_failed
    from datamon.workflows.common.running import run_long_activity, run_metadata_activity

AT_ONCE = 4  # repos cleaned up at a time
FAILURES = 100  # repos that a report names as failed


@dataclass(frozen=True)
class HousekeepingReport:
    """The result of a round of housekeeping."""

    dry_run: bool = False
    repos: int = 0
    removed: int = 0
    objects: int = 0
    kept: int = 0
    abandoned: int = 0
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # by repo

    def with_one(self, repo: RepoName, report: RepoReport | str) -> HousekeepingReport:
        """The report with one more repo, cleaned up or failed."""
        if isinstance(report, str):
            failures = {**self.failures, repo: report} if len(self.failures) < FAILURES else self.failures
            return replace(self, repos=self.repos + 1, failures=failures)
        return replace(
            self,
            repos=self.repos + 1,
            removed=self.removed + report.removed,
            objects=self.objects + report.objects,
            kept=self.kept + report.kept,
            abandoned=self.abandoned + report.abandoned,
            findings=[*self.findings, *report.findings][:NAMED],
        )


@dataclass(frozen=True)
class HousekeepingInput:
    """How long things are left alone and, if the round has continued as new, how far it got."""

    older_than_seconds: float = timedelta(days=7).total_seconds()
    silent_seconds: float = timedelta(days=30).total_seconds()
    dry_run: bool = False
    cron: str = ""  # by which schedule it runs; empty if by hand
    limits: Limits | None = None
    after: str = ""
    report: HousekeepingReport = field(default_factory=HousekeepingReport)
    options: Options = field(default_factory=Options)


@workflow.defn
class HousekeepingWorkflow(ShowsRetries):
    """One round of housekeeping, through all repos of a store."""

    @workflow.init
    def __init__(self, request: HousekeepingInput) -> None:
        super().__init__()
        self._request, self._after = request, request.after
        self._limits = request.limits or _limits(request)
        self._report = replace(request.report, dry_run=request.dry_run)

    @workflow.run
    async def run(self, request: HousekeepingInput) -> HousekeepingReport:
        """The story of a round."""
        while repos := await run_metadata_activity(
            HousekeepingActivities.list_repos, self._after, request.options, "more repos"
        ):
            for start in range(0, len(repos), AT_ONCE):
                await self._clean(repos[start : start + AT_ONCE])
                if workflow.info().is_continue_as_new_suggested():
                    rest = replace(request, limits=self._limits, after=self._after, report=self._report)
                    workflow.continue_as_new(rest)
        return self._report

    @workflow.query(description="The result of this round so far.")
    def report(self) -> HousekeepingReport:
        """The result so far."""
        return self._report

    async def _clean(self, repos: list[RepoName]) -> None:
        reports = await asyncio.gather(*(self._clean_one(repo) for repo in repos))
        for repo, report in zip(repos, reports, strict=True):
            self._report = self._report.with_one(repo, report)
        self._after = repos[-1]
        self._describe()

    async def _clean_one(self, repo: RepoName) -> RepoReport | str:
        """Clean up one repo. If that fails, the other repos are still cleaned up."""
        options = self._request.options
        try:
            return await run_long_activity(
                HousekeepingActivities.clean_repo,
                CleanRepo(repo, self._limits, self._request.dry_run),
                options,
                f"{'look at' if self._request.dry_run else 'clean up'} repo {repo}",
                heartbeat_seconds=options.metadata_seconds,
            )
        except ActivityError as error:
            return str(from_failure(error))

    def _describe(self) -> None:
        report = self._report
        rows = [
            ("repos", f"{report.repos:,}"),
            ("would be removed" if report.dry_run else "removed", f"{report.removed:,}"),
            ("kept for a reason", f"{report.kept:,}"),
            ("look abandoned", f"{report.abandoned:,}"),
            ("repos that failed", ", ".join(report.failures) or "none"),
            *describe_failed(self._failed_attempts.values()),
        ]
        workflow.set_current_details(table(("housekeeping", f"ended before {self._limits.ended[:19]}"), rows))


def _limits(request: HousekeepingInput) -> Limits:
    now = workflow.time_ns()
    ages = (request.older_than_seconds, request.silent_seconds)
    ended, silent = (max(0, now - int(seconds * 1e9)) for seconds in ages)
    return Limits(instant(ended), instant(silent))
