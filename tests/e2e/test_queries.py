"""A query that was on its way to a worker when that was killed. See docs/internals/decisions/019."""

import asyncio
import signal
from datetime import timedelta

import pytest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from datamon.sources.source import Source
from datamon.starter.client import Datamon
from datamon.workflows.common.message_checks import SignalArgumentCheck
from datamon.workflows.common.names import KIND, REPO, SPLITS, STATE
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import AddSplit
from datamon.workflows.registry import all_workflows
from tests.conftest import BIN, Command
from tests.workflow.helpers import NOBODY, is_started, until


@pytest.fixture
async def server():
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(BIN / "temporal"),
        dev_server_extra_args=["--log-level", "error"],
        search_attributes=[REPO, STATE, KIND, SPLITS],
    ) as running:
        yield running


def started(command):
    process = command.popen("worker")
    assert "serving" in process.stderr.readline()
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


async def test_a_query_that_outlives_its_worker_leads_no_workflow_astray(server, tmp_path):
    """Between two adds of one split a worker looks at the diamond, for the query alone; then both come in one task."""
    address = server.client.service_client.config.target_host
    command = Command(tmp_path / "home", {"DATAMON_STORE": str(tmp_path / "store"), "TEMPORAL_ADDRESS": address})
    datamon = Datamon(server.client, command.settings())
    await datamon.repos.create("r")
    worker = started(command)
    diamond = await datamon.diamonds.initialize("r", options=Options(stop_seconds=2))
    assert (await diamond.status()).state == "initialized"
    kill(worker)
    patience = timedelta(seconds=60)  # a worker may take long to start where many tests run

    async def ask():
        while True:
            try:
                return await diamond.handle.query(DiamondWorkflow.status, rpc_timeout=patience)
            except RPCError as error:  # the dead worker's last poll has taken it, and ended with it
                if error.status is not RPCStatusCode.CANCELLED:
                    raise

    query = asyncio.ensure_future(ask())
    await asyncio.sleep(1)  # it is with the server now, which waits for the dead worker to take it

    def add(request):
        return [AddSplit("s", request, Source("/nowhere"), NOBODY, "nobody")]

    await diamond.handle.signal(DiamondWorkflow.add, add("first"))
    worker = started(command)
    status = await query
    assert status.splits["running"] == 1, "it was answered by a workflow that had acted on the first add"
    await diamond.handle.signal(DiamondWorkflow.add, add("second"))
    await until(lambda: is_started(diamond, "s"))
    kill(worker)
    history = await diamond.handle.fetch_history()
    await Replayer(workflows=all_workflows(), interceptors=[SignalArgumentCheck()]).replay_workflow(history)
