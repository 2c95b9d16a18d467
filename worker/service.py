"""The Temporal workers of one process: the shared queue, and the queue of this host's disks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.worker import Worker, WorkflowRunner

from datamon.activities.registry import Resources, RunsOn, build_activities
from datamon.settings.settings import Settings
from datamon.worker.attempts import AttemptReports
from datamon.worker.spark import SparkRuntime
from datamon.worker.telemetry import flush
from datamon.worker.workflow_runner import QuerySafeRunner
from datamon.workflows.common.message_checks import SignalArgumentCheck
from datamon.workflows.common.names import TASK_QUEUE, queues_of
from datamon.workflows.registry import all_workflows

if TYPE_CHECKING:
    from pyspark import SparkContext
    from temporalio.client import Client

GRACE = timedelta(seconds=5)  # after SIGTERM, for activities to send their last heartbeat and leave
METADATA_AT_ONCE = 32
SPARK_JOBS_AT_ONCE = max(4, 2 * (os.cpu_count() or 1))

log = logging.getLogger(__name__)


def build_workers(
    client: Client,
    settings: Settings,
    spark: Callable[[], SparkContext],
    queues: list[str],
    pool: ThreadPoolExecutor,
    identity: str | None = None,
    runner: WorkflowRunner | None = None,
) -> list[Worker]:
    """A Temporal worker for each queue. Workflows live on the shared one; uploads run on any.

    Workflows run without the sandbox, which takes a third of the CPU of a split. Tests pass it as the `runner`, to find
    what would not replay.
    """
    activities = build_activities(Resources(settings, settings.context(), spark))

    def worker(queue: str) -> Worker:
        is_shared = queue == TASK_QUEUE
        return Worker(
            client,
            identity=identity,
            task_queue=queue,
            workflows=all_workflows() if is_shared else [],
            activities=[*(activities[RunsOn.SHARED] if is_shared else []), *activities[RunsOn.EVERY]],
            activity_executor=pool,
            max_concurrent_activities=METADATA_AT_ONCE if is_shared else SPARK_JOBS_AT_ONCE,
            graceful_shutdown_timeout=GRACE,
            interceptors=[SignalArgumentCheck(), AttemptReports(client)],
            workflow_runner=runner or QuerySafeRunner(),
            max_heartbeat_throttle_interval=timedelta(seconds=2),  # so that a cancel is seen that soon
        )

    return [worker(queue) for queue in queues]


@asynccontextmanager
async def serving(
    client: Client, settings: Settings, queues: list[str] | None = None, identity: str | None = None
) -> AsyncIterator[SparkRuntime]:
    """Serve as long as the block runs, by default the shared queue and this host's."""
    queues = queues or queues_of(settings.host)
    spark = SparkRuntime(settings.spark_master, settings.home / "spark")
    spark.warm_up()
    threads = METADATA_AT_ONCE + SPARK_JOBS_AT_ONCE * len(queues)
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="activity") as pool:
            async with AsyncExitStack() as stack:
                for worker in build_workers(client, settings, spark.context, queues, pool, identity):
                    await stack.enter_async_context(worker)
                yield spark
                log.info("stopping")
    finally:
        await asyncio.to_thread(spark.stop)
        await asyncio.to_thread(flush, settings)
