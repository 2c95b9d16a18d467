"""Removing what is left in the store of diamonds that have ended, a repo at a time."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice

import msgspec
from temporalio import activity

from datamon.activities.contracts import housekeeping as contract
from datamon.activities.contracts.housekeeping import CleanRepo, RepoReport
from datamon.activities.failures import errors_as_failures
from datamon.activities.heartbeat import heartbeating
from datamon.activities.registry import ActivityGroup, Resources
from datamon.bundles.repos import get_repo
from datamon.core.errors import NotFound
from datamon.core.ids import RepoName
from datamon.diamonds.findings import Verdict
from datamon.diamonds.retention import findings, remove
from datamon.stores import keys
from datamon.stores.context import Context

REPOS_AT_ONCE = 500  # names in one message


class HousekeepingActivities(contract.HousekeepingActivities, ActivityGroup):
    """See the contract."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @classmethod
    def build(cls, resources: Resources) -> HousekeepingActivities:
        """See ActivityGroup."""
        return cls(resources.settings.housekeeping_context())

    @activity.defn
    def list_repos(self, after: str) -> list[RepoName]:
        """See the contract."""
        with errors_as_failures():
            names = (name for name in self._context.metadata.folders(keys.REPOS) if name > after)
            return [RepoName(name) for name in islice(names, REPOS_AT_ONCE)]

    @activity.defn
    def clean_repo(self, request: CleanRepo) -> RepoReport:
        """See the contract."""
        report = _last_attempt()
        with errors_as_failures(), heartbeating(lambda: activity.heartbeat(asdict(report))):
            if not self._is_there(request.repo):
                return report
            for finding in findings(self._context, request.repo, request.limits, report.after):
                removes = finding.verdict is Verdict.REMOVE and not request.dry_run
                report = report.with_one(finding, remove(self._context, finding) if removes else 0)
        return report

    def _is_there(self, repo: RepoName) -> bool:
        """Whether the repo still exists. A deleted repo is not cleaned up."""
        try:
            get_repo(self._context, repo)
        except NotFound as error:
            if not error.deleted:
                raise
            return False
        return True


def _last_attempt() -> RepoReport:
    """How far the attempt before this one got."""
    details = activity.info().heartbeat_details
    return msgspec.convert(details[0], RepoReport) if details else RepoReport()
