"""The Temporal workers of one process: the shared queue, and the queue of this host's disks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.worker import Worker, WorkflowRunner

from activities.commit import CommitActivities
from activities.housekeeping import HousekeepingActivities
from activities.metadata import MetadataActivities
from activities.recovery import RecoveryActivities
from activities.upload import UploadActivities
from datamon.settings import Settings
from worker.running import CarefulRunner
from worker.spark import SparkRuntime
from worker.telemetry import flush
from workflows.diamond import DiamondWorkflow
from workflows.hearing import HearSafely
from workflows.janitor import JanitorWorkflow
from workflows.names import TASK_QUEUE, queues_of
from workflows.split import SplitWorkflow

if TYPE_CHECKING:
    from pyspark import SparkContext
    from temporalio.client import Client

WORKFLOWS = [DiamondWorkflow, SplitWorkflow, JanitorWorkflow]
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

    Workflows run without the sandbox, which takes a third of the CPU of a split. Tests give it as the `runner`: there
    it finds what would not replay.
    """
    context = settings.context()
    metadata, commit, upload, housekeeping = (
        MetadataActivities(context),
        CommitActivities(context, spark),
        UploadActivities(context, spark, settings.sources),
        HousekeepingActivities(settings.janitor_context()),
    )
    shared: list[Callable[..., Any]] = [
        metadata.open_diamond,
        metadata.publish_diamond,
        metadata.start_split,
        metadata.finish_split,
        metadata.end_split,
        metadata.fail_splits,
        metadata.set_label,
        commit.make_bundle,
        commit.give_up_bundle,
        RecoveryActivities(context).take_up,
        housekeeping.list_repos,
        housekeeping.tidy_repo,
    ]

    def worker(queue: str) -> Worker:
        is_shared = queue == TASK_QUEUE
        return Worker(
            client,
            identity=identity,
            task_queue=queue,
            workflows=WORKFLOWS if is_shared else [],
            activities=[*(shared if is_shared else []), upload.upload_split],
            activity_executor=pool,
            max_concurrent_activities=METADATA_AT_ONCE if is_shared else SPARK_JOBS_AT_ONCE,
            graceful_shutdown_timeout=GRACE,
            interceptors=[HearSafely()],
            workflow_runner=runner or CarefulRunner(),
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
