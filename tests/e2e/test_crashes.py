"""Workers that are killed in the middle of a commit. The moment is chosen by holding back one of their requests."""

import asyncio
import signal

import pytest
from temporalio.testing import WorkflowEnvironment

from datamon import catalog, keys
from datamon.model import DiamondState
from starter.client import Datamon
from tests.conftest import BIN, Command
from tests.faults.s3 import faulty
from tests.workflow.helpers import published
from workflows.messages import Options
from workflows.names import KIND, REPO, SPLITS, STATE

IMPATIENT = Options(heartbeat_seconds=2, retry_first_seconds=0.2, metadata_seconds=5)


@pytest.fixture
async def server():
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(BIN / "temporal"),
        dev_server_extra_args=["--log-level", "error"],
        search_attributes=[REPO, STATE, KIND, SPLITS],
    ) as running:
        yield running


class Worker:
    """`datamon worker`, until it is killed."""

    def __init__(self, command):
        self._process = command.popen("worker")
        assert "serving" in self._process.stderr.readline()

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


async def reached(hold):
    assert await asyncio.to_thread(hold.reached.wait, 60), "the request never came"


async def test_a_commit_goes_on_by_itself_when_its_workers_are_killed(server, s3, place, files, tmp_path):
    """The first dies before bundle.yaml is put, the second before the label is; the third finds nothing to do twice."""
    with faulty(s3) as proxy:
        environment = {
            "DATAMON_STORE": place,
            "TEMPORAL_ADDRESS": server.client.service_client.config.target_host,
            "AWS_ENDPOINT_URL": proxy.endpoint,
        }
        command = Command(tmp_path / "home", environment)
        datamon = Datamon(server.client, command.settings())
        await datamon.repos.create("r")
        worker = Worker(command)
        diamond = await datamon.diamonds.initialize("r", options=IMPATIENT)
        for number in (1, 2):
            await (await diamond.add(files(f"p{number}", {f"{number}": "x", "clash": f"{number}"}))).result()

        with proxy.hold("PUT", "/bundle.yaml") as hold:
            commit = asyncio.ensure_future(diamond.commit("m", label="latest"))
            await reached(hold)
            seen = published(datamon, diamond)
            assert (seen.state, seen.bundle) == (DiamondState.COMMITTING, None)
            assert seen.making is not None
            assert list(catalog.bundles(datamon.context, "r")) == []
            worker.kill()

        with proxy.hold("PUT", "/label.yaml") as hold:
            worker = Worker(command)
            await reached(hold)
            [made] = catalog.bundles(datamon.context, "r")
            assert made.id == seen.making
            assert published(datamon, diamond).state is DiamondState.COMMITTING
            assert await datamon.labels.list("r") == []
            worker.kill()

        worker = Worker(command)
        answer = await commit
        worker.kill()

    assert (answer.bundle, answer.label, answer.unlabeled) == (seen.making, "latest", "")
    assert published(datamon, diamond).state is DiamondState.DONE
    assert [value.bundle for value in await datamon.labels.history("r", "latest")] == [answer.bundle]
    [made] = catalog.bundles(datamon.context, "r")
    lists = {keys.bundle_files("r", made.id, info.index) for info in made.lists}
    assert set(datamon.context.metadata.keys("bundles/")) == {keys.bundle("r", made.id), *lists}
