"""A Temporal server and workers inside the test's own process, for what the shared stack cannot show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

from temporalio.testing import WorkflowEnvironment

from datamon.errors import AlreadyExists
from starter.client import Datamon
from starter.connect import need_worker
from tests.conftest import BIN, Command
from worker.service import METADATA_AT_ONCE, SPARK_JOBS_AT_ONCE, build_workers
from workflows.names import KIND, REPO, SPLITS, STATE, queues_of


@asynccontextmanager
async def private_server(home, spark, events=4096):
    """A client of a server that suggests continue-as-new after so many events, and the repo `r`.

    Its database ends with it. What is in the store below `home` is there again for the next one.
    """
    settings = Command(home, {"DATAMON_STORE": str(home / "store"), "DATAMON_HOST": "host-1"}).settings()
    limit = f"limit.historyCount.suggestContinueAsNew={events}"
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(BIN / "temporal"),
        dev_server_extra_args=["--dynamic-config-value", limit, "--log-level", "error"],
        search_attributes=[REPO, STATE, KIND, SPLITS],
    ) as server:
        queues = queues_of(settings.host)
        with ThreadPoolExecutor(METADATA_AT_ONCE + SPARK_JOBS_AT_ONCE) as pool:
            shared, local = build_workers(server.client, settings, spark.context, queues, pool)
            async with shared, local:
                await need_worker(server.client, *queues, patience=30)
                datamon = Datamon(server.client, settings)
                with suppress(AlreadyExists):
                    await datamon.repos.create("r")
                yield datamon
