"""How patient workflows are. Part of their input, so that an operator can change it and a test can shorten it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.common import RetryPolicy


@dataclass(frozen=True)
class Options:
    """Windows, timeouts and retries of a workflow."""

    window: int = 50  # children started at once; 200 at once cost the parent a sticky timeout of 10 s
    heartbeat_seconds: float = 20
    retry_first_seconds: float = 1
    retry_longest_seconds: float = 60
    metadata_seconds: float = 60
    probe_seconds: float = 600  # between looks at children that an earlier run of the workflow started
    stop_seconds: float = 60  # before a child that was told to stop is told again
    quiet_seconds: float = 10  # that a workflow waits for its children to end, before it continues as new
    spark_days: float = 30

    @property
    def retry(self) -> RetryPolicy:
        """For errors that can pass; those that cannot are marked as not retryable. There is no limit on attempts."""
        return RetryPolicy(
            initial_interval=timedelta(seconds=self.retry_first_seconds),
            maximum_interval=timedelta(seconds=self.retry_longest_seconds),
        )
