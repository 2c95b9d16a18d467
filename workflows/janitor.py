"""JanitorWorkflow: goes through all repos and has removed what is left of diamonds that ended long ago."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.housekeeping import TOLD, HousekeepingActivities, TidyRepo, TidyReport
    from activities.wire import from_wire
    from datamon.housekeeping import Finding, Limits
    from datamon.ids import RepoName
    from datamon.model import instant
    from workflows.details import table
    from workflows.messages import Options
    from workflows.names import TASK_QUEUE
    from workflows.waiting import quickly

AT_ONCE = 4  # repos tidied at a time
FAILURES = 100  # repos that a report names as failed


@dataclass(frozen=True)
class JanitorReport:
    """What a round of housekeeping came to."""

    dry_run: bool = False
    repos: int = 0
    removed: int = 0
    objects: int = 0
    kept: int = 0
    abandoned: int = 0
    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # by repo

    def with_one(self, repo: RepoName, report: TidyReport | str) -> JanitorReport:
        """The report with one more repo, tidied or failed."""
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
            findings=[*self.findings, *report.findings][:TOLD],
        )


@dataclass(frozen=True)
class JanitorInput:
    """How long things are left alone, and, when it has continued as new, how far it got."""

    older_than_seconds: float = timedelta(days=7).total_seconds()
    silent_seconds: float = timedelta(days=30).total_seconds()
    dry_run: bool = False
    cron: str = ""  # by which schedule it runs; empty if by hand
    limits: Limits | None = None
    after: str = ""
    report: JanitorReport = field(default_factory=JanitorReport)
    options: Options = field(default_factory=Options)


@workflow.defn
class JanitorWorkflow:
    """One round of housekeeping, through all repos of a store."""

    @workflow.init
    def __init__(self, order: JanitorInput) -> None:
        self._order, self._after = order, order.after
        self._limits = order.limits or _limits(order)
        self._report = replace(order.report, dry_run=order.dry_run)

    @workflow.run
    async def run(self, order: JanitorInput) -> JanitorReport:
        """The story of a round."""
        while repos := await quickly(HousekeepingActivities.list_repos, self._after, order.options, "more repos"):
            for start in range(0, len(repos), AT_ONCE):
                await self._tidy(repos[start : start + AT_ONCE])
                if workflow.info().is_continue_as_new_suggested():
                    done = replace(order, limits=self._limits, after=self._after, report=self._report)
                    workflow.continue_as_new(done)
        return self._report

    @workflow.query(description="What this round has come to so far.")
    def report(self) -> JanitorReport:
        """How far it is."""
        return self._report

    async def _tidy(self, repos: list[RepoName]) -> None:
        reports = await asyncio.gather(*(self._tidy_one(repo) for repo in repos))
        for repo, report in zip(repos, reports, strict=True):
            self._report = self._report.with_one(repo, report)
        self._after = repos[-1]
        self._describe()

    async def _tidy_one(self, repo: RepoName) -> TidyReport | str:
        """One repo that cannot be tidied does not keep the others from it."""
        options = self._order.options
        try:
            return await workflow.execute_activity_method(
                HousekeepingActivities.tidy_repo,
                TidyRepo(repo, self._limits, self._order.dry_run),
                task_queue=TASK_QUEUE,
                start_to_close_timeout=timedelta(days=options.spark_days),
                heartbeat_timeout=timedelta(seconds=options.metadata_seconds),
                retry_policy=options.retry,
                summary=f"{'look at' if self._order.dry_run else 'tidy'} repo {repo}",
            )
        except ActivityError as error:
            return str(from_wire(error))

    def _describe(self) -> None:
        report = self._report
        rows = [
            ("repos", f"{report.repos:,}"),
            ("would be removed" if report.dry_run else "removed", f"{report.removed:,}"),
            ("kept for a reason", f"{report.kept:,}"),
            ("look abandoned", f"{report.abandoned:,}"),
            ("repos that failed", ", ".join(report.failures) or "none"),
        ]
        workflow.set_current_details(table(("housekeeping", f"ended before {self._limits.ended[:19]}"), rows))


def _limits(order: JanitorInput) -> Limits:
    now = workflow.time_ns()
    ages = (order.older_than_seconds, order.silent_seconds)
    ended, silent = (max(0, now - int(seconds * 1e9)) for seconds in ages)
    return Limits(instant(ended), instant(silent))
