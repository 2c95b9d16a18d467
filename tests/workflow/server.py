"""A Temporal server and workers inside the test's own process, for what the shared stack cannot show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from temporalio.testing import WorkflowEnvironment
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from datamon.core.errors import AlreadyExists
from datamon.starter.client import Datamon
from datamon.worker.connection.queues import require_worker
from datamon.worker.service import METADATA_AT_ONCE, SPARK_JOBS_AT_ONCE, build_workers
from datamon.workflows.common.names import KIND, REPO, SPLITS, STATE, queues_of
from tests.conftest import BIN, Command

OF_THE_TESTS = {
    "dev_server_existing_path": str(BIN / "temporal"),
    "search_attributes": [REPO, STATE, KIND, SPLITS],
}


@asynccontextmanager
async def private_server(home, spark, events=4096, runner=None):
    """A client of a server that suggests continue-as-new after so many events, and the repo `r`.

    Its database ends with it. What is in the store below `home` is there again for the next one.
    """
    limit = f"limit.historyCount.suggestContinueAsNew={events}"
    more = ["--dynamic-config-value", limit, "--log-level", "error"]
    async with (
        await WorkflowEnvironment.start_local(**OF_THE_TESTS, dev_server_extra_args=more) as server,
        served(server.client, home, spark, runner) as datamon,
    ):
        yield datamon


@asynccontextmanager
async def time_skipping_server(home, spark):
    """A server whose clock can be moved, a client of it, and the repo `r`."""
    more = ["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true", "--log-level", "error"]
    async with (
        await WorkflowEnvironment.start_time_skipping_v2(**OF_THE_TESTS, dev_server_extra_args=more) as server,
        served(server.client, home, spark) as datamon,
    ):
        yield server, datamon


@asynccontextmanager
async def served(client, home, spark, runner=None):
    """A client with workers of its own and a store below `home`, which has the repo `r`.

    Unlike those of the shared stack they keep workflows in a sandbox, unless another runner is given.
    """
    settings = Command(home, {"DATAMON_STORE": str(home / "store"), "DATAMON_HOST": "host-1"}).settings()
    queues = queues_of(settings.host)
    runner = runner or SandboxedWorkflowRunner()
    with ThreadPoolExecutor(METADATA_AT_ONCE + SPARK_JOBS_AT_ONCE) as pool:
        shared, local = build_workers(client, settings, spark.context, queues, pool, runner=runner)
        async with shared, local:
            await require_worker(client, *queues, patience=30)
            datamon = Datamon(client, settings)
            with suppress(AlreadyExists):
                await datamon.repos.create("r")
            yield datamon
