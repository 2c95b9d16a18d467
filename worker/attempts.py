"""Reports attempts to run an activity that fail and will be repeated, to the log and to the workflow."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from datamon.activities.failures import from_failure
from datamon.core.instants import instant
from datamon.core.text import REASON_BYTES, shortened
from datamon.workflows.common.retries import FailedAttempt, ShowsRetries, activity_words, is_reported

SEND_SECONDS = timedelta(seconds=5)


class AttemptReports(Interceptor):
    """Reports every attempt that fails and is followed by another one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See Interceptor."""
        return _Reporting(next, self._client)


class _Reporting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, client: Client) -> None:
        super().__init__(next)
        self._client = client

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await super().execute_activity(input)
        except Exception as error:
            if _is_tried_again(error):
                await self._report(error)
            raise

    async def _report(self, error: Exception) -> None:
        info = activity.info()
        pause = pause_after(info.attempt, info.retry_policy or RetryPolicy())
        reason = str(from_failure(error))
        what = activity_words(info.activity_type)
        activity.logger.warning("%s: attempt %d failed: %s; the next in %.3g s", what, info.attempt, reason, pause)
        if info.workflow_id is None or not is_reported(info.attempt):
            return
        failed = FailedAttempt(what, info.attempt, shortened(reason, REASON_BYTES), instant(time.time_ns()), pause)
        handle = self._client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        try:
            await handle.signal(ShowsRetries.attempt_failed, failed, rpc_timeout=SEND_SECONDS)
        except Exception as problem:  # noqa: BLE001 - the report is for information, and must not hide the error itself
            activity.logger.info("the failed attempt could not be reported to the workflow: %s", problem)


def _is_tried_again(error: Exception) -> bool:
    if isinstance(error, CancelledError) or activity.is_worker_shutdown() or activity.is_cancelled():
        return False
    return not (isinstance(error, ApplicationError) and error.non_retryable)


def pause_after(attempt: int, policy: RetryPolicy) -> float:
    """Seconds from the failure of an attempt, counting from 1, to the next one."""
    first = policy.initial_interval.total_seconds()
    longest = policy.maximum_interval.total_seconds() if policy.maximum_interval else 100 * first
    return float(min(longest, first * policy.backoff_coefficient ** min(attempt - 1, 64)))
