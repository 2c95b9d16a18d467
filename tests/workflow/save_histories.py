"""Save a history of every shape that our workflows take, for the replay tests.

    python -m tests.workflow.save_histories current     into histories/current/, in the place of what is there
    python -m tests.workflow.save_histories 0.2.0       into histories/0.2.0/, which must not be there yet

Histories are saved when new shapes come up, not to make a red replay test green: a history stands for workflows that
are open somewhere right now, and today's code must be able to go on with them (`workflow.patched`). So those of
released versions stay, and `current` is for what no release has.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, DatamonError
from datamon.core.ids import new_id
from datamon.merge.modes import ConflictMode
from datamon.sources.source import Source
from datamon.starter.attempts import pending_attempts
from datamon.starter.client import SplitOptions
from datamon.stores import keys
from datamon.worker.spark import SparkRuntime
from datamon.workflows.common.names import HOUSEKEEPING
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import AddSplit
from tests.conftest import closed
from tests.workflow.server import private_server

HISTORIES = Path(__file__).parent / "histories"
ROOT = Path(__file__).parents[2]
CURRENT = "current"  # the only one that may be saved anew
EVENTS = 150


class Saver:
    def __init__(self, datamon, folder, histories):
        self.datamon, self.folder, self.histories = datamon, folder, histories

    def files(self, name, contents):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file, text in contents.items():
            (folder / file).write_text(text)
        return folder

    async def unending(self, diamond, split):
        add = AddSplit(split, new_id(), Source("/nowhere"), "datamon@nobody", "nobody", Contributor("Ada"))
        await diamond.handle.signal(DiamondWorkflow.add, [add])
        while not (await diamond.handle.query(DiamondWorkflow.split, split)).started:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def retrying(self, handle):
        """Wait until an attempt has failed and its workflow knows."""
        while not any(one.number > 1 for one in await pending_attempts(self.datamon.client, handle)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def save(self, name, workflow_id, run_id=None):
        handle = self.datamon.client.get_workflow_handle(workflow_id, run_id=run_id)
        text = (await handle.fetch_history()).to_json().replace(f"{ROOT}/", "")
        plain = json.dumps({"workflow_id": workflow_id, "history": json.loads(text)}, indent=1)
        (self.histories / f"{name}.json").write_text(plain + "\n")

    async def committed(self):
        """Two refused commits, a split that fails, one that is left out, one that is added again; then a bundle."""
        diamond = await self.datamon.diamonds.initialize("r", "committed")
        with_error = [diamond.commit("too early"), diamond.add("/no", SplitOptions(id="unknown"))]
        for refused in with_error:
            await expect_error(refused)
        failed = await diamond.add(self.folder / "missing", SplitOptions(id="again", create=True))
        await expect_error(failed.result())
        await self.save("split-failed", failed.handle.id)
        again = await diamond.add(self.files("missing", {"clash": "1"}), SplitOptions(id="again"))
        await again.result()
        other = await diamond.add(self.files("other", {"clash": "2"}))
        await other.result()
        await self.save("split-done", other.handle.id)
        await expect_error(diamond.commit("m", ConflictMode.FORBID))
        await self.unending(diamond, "slow")
        await diamond.commit("m", label="latest")
        await diamond.handle.result()
        await self.save("diamond-committed", diamond.handle.id)
        await self.save("split-stopped", f"split/r/{diamond.id}/slow")

    async def readded(self):
        """A running split is added again, and its new run takes over."""
        diamond = await self.datamon.diamonds.initialize("r", "readded")
        await self.unending(diamond, "node")
        again = await diamond.add(self.files("node", {"a": "1"}), SplitOptions(id="node"))
        await again.result()
        await diamond.handle.signal("commit", {"request": "1", "message": "by signal"})
        await diamond.handle.result()
        await self.save("diamond-split-added-again", diamond.handle.id)

    async def canceled(self):
        """Once by message, while a commit waits, and once by Temporal's own cancel."""
        diamond = await self.datamon.diamonds.initialize("r", "canceled")
        await self.unending(diamond, "slow")
        waiting = asyncio.ensure_future(diamond.commit("m", wait=True))
        while not (await diamond.status()).committing:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await diamond.cancel()
        await expect_error(waiting)
        await diamond.handle.result()
        await self.save("diamond-canceled", diamond.handle.id)
        diamond = await self.datamon.diamonds.initialize("r", "canceled-natively")
        await self.unending(diamond, "slow")
        await diamond.handle.cancel(reason="from the Web UI")
        await asyncio.gather(diamond.handle.result(), return_exceptions=True)
        await self.save("diamond-canceled-natively", diamond.handle.id)
        await self.save("split-stopped-by-cancel", f"split/r/{diamond.id}/slow")

    async def unopened(self):
        """An id that the store knows and the server does not."""
        diamond = await self.datamon.diamonds.initialize("r", "unopened")
        await diamond.handle.terminate()
        try:
            await self.datamon.diamonds.initialize("r", "unopened")
        except AlreadyExists:
            await self.save("diamond-unopened", diamond.handle.id)

    async def terminated(self):
        """A split is terminated behind the diamond's back."""
        diamond = await self.datamon.diamonds.initialize("r", "terminated")
        await self.unending(diamond, "slow")
        await self.datamon.client.get_workflow_handle(f"split/r/{diamond.id}/slow").terminate()
        await expect_error(diamond.commit("m", wait=True))
        await diamond.cancel()
        await diamond.handle.result()
        await self.save("diamond-split-terminated", diamond.handle.id)

    async def continued(self):
        """A diamond that continues as new, with a commit waiting all the while."""
        diamond = await self.datamon.diamonds.initialize("r", "continued", options=Options(window=3))
        commit = asyncio.ensure_future(diamond.commit("m", wait=True, splits=24))
        for number in range(24):
            await diamond.add(self.files(f"c{number}", {f"{number}": "x"}))
        await commit
        await diamond.handle.result()
        query = f"WorkflowId = '{diamond.handle.id}'"
        runs = [run async for run in self.datamon.client.list_workflows(query)]
        runs.sort(key=lambda run: run.start_time)
        for number, run in enumerate([runs[0], runs[-1]]):
            await self.save(f"diamond-continued-{number}", diamond.handle.id, run.run_id)

    async def crowded(self):
        """Splits wait for a place when the commit comes, which fails over a damaged list, and then goes well."""
        diamond = await self.datamon.diamonds.initialize("r", "crowded", options=Options(window=1))
        done = await diamond.add(self.files("done", {"a": "1"}), SplitOptions(id="done", create=True))
        await done.result()
        [listed] = self.datamon.context.vmetadata.keys(keys.split_folder("r", diamond.id, "done") + "bundle-files")
        path = self.datamon.context.vmetadata.root / listed
        right = path.read_bytes()
        path.write_bytes(b"damaged")
        await self.unending(diamond, "slow")
        add = AddSplit("waiting", new_id(), Source("/nowhere"), "datamon@nobody", "nobody", Contributor("Ada"))
        await diamond.handle.signal(DiamondWorkflow.add, [add])
        await expect_error(diamond.commit("m"))
        path.write_bytes(right)
        await diamond.commit("m")
        await diamond.handle.result()
        await self.save("diamond-crowded", diamond.handle.id)

    async def recovered(self):
        """A diamond is terminated with a split running, and taken up again."""
        diamond = await self.datamon.diamonds.initialize("r", "recovered")
        await (await diamond.add(self.files("kept", {"a": "1"}))).result()
        await self.unending(diamond, "slow")
        await diamond.handle.terminate()
        await self.datamon.diamonds.recover("r", "recovered")
        await diamond.commit("m")
        await diamond.handle.result()
        await self.save("diamond-recovered", diamond.handle.id)

    async def rejected(self):
        """Messages that nobody should send, some of which one version takes and another does not."""
        diamond = await self.datamon.diamonds.initialize("r", "rejected")
        add = {"path": "/nowhere", "host": "nobody"}
        for words in (add, [add | {"tag": "x" * 5000}], [add | {"queue": "elsewhere"}], [{"path": 5}]):
            await diamond.handle.signal("add", args=[words])
        await (await diamond.add(self.files("heard", {"a": "1"}))).result()
        await diamond.commit("m")
        await diamond.handle.result()
        await self.save("diamond-rejected", diamond.handle.id)
        diamond = await self.datamon.diamonds.initialize("r", "rejected-cancel")
        await diamond.handle.signal("cancel", args=[None])
        await asyncio.gather(diamond.cancel("a mistake"), return_exceptions=True)
        await diamond.handle.result()
        await self.save("diamond-canceled-by-nothing", diamond.handle.id)

    async def overcrowded(self):
        """More splits than one message publishes have never run when the diamond is canceled."""
        diamond = await self.datamon.diamonds.initialize("r", "overcrowded", options=Options(window=1))
        await self.unending(diamond, "slow")
        never = [
            AddSplit(f"never{number}", new_id(), Source("/nowhere"), "datamon@nobody", "nobody", Contributor("Ada"))
            for number in range(250)
        ]
        await diamond.handle.signal(DiamondWorkflow.add, never)
        await diamond.cancel()
        await diamond.handle.result()
        await self.save("diamond-overcrowded", diamond.handle.id)

    async def retried(self):
        """The store fails for a while, in an upload and in a commit: attempts that failed are shown and forgotten."""
        diamond = await self.datamon.diamonds.initialize("r", "retried", metadata={"run": "7"}, request="opened")
        store = self.datamon.context.blob.root
        with closed(store / "packs"):
            split = await diamond.add(self.files("retried", {"a": "of a retried one"}), SplitOptions(request="added"))
            await self.retrying(split.handle)
        await split.result()
        await self.save("split-retried", split.handle.id)
        with closed(self.datamon.context.metadata.root / "lists"):
            commit = asyncio.ensure_future(diamond.commit("m", request="committed"))
            await self.retrying(diamond.handle)
        await commit
        await diamond.commit("m", request="committed")
        await self.save("diamond-retried", diamond.handle.id)

    async def impatient(self):
        """A commit that waits for more splits than come, until its time is over; then one that waits for fewer."""
        diamond = await self.datamon.diamonds.initialize("r", "impatient")
        await (await diamond.add(self.files("punctual", {"a": "1"}))).result()
        await expect_error(diamond.commit("m", wait=True, splits=2, timeout_seconds=1))
        await diamond.commit("m", wait=True, splits=1)
        await diamond.handle.result()
        await self.save("diamond-impatient", diamond.handle.id)

    async def cleaned_up(self):
        """A round of housekeeping over what the other shapes have left."""
        await self.datamon.housekeeping.run(timedelta(0))
        await self.save("housekeeping", HOUSEKEEPING)


async def expect_error(work):
    try:
        await work
    except DatamonError:
        return
    raise AssertionError("no error")


async def main(version):
    histories = HISTORIES / version
    if version == CURRENT:
        shutil.rmtree(histories, ignore_errors=True)
    histories.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        spark = SparkRuntime("local[2]", Path(folder) / "spark")
        spark.warm_up()
        async with private_server(Path(folder), spark, EVENTS) as datamon:
            saver = Saver(datamon, Path(folder), histories)
            for shape in (
                saver.committed,
                saver.readded,
                saver.canceled,
                saver.unopened,
                saver.terminated,
                saver.continued,
                saver.crowded,
                saver.recovered,
                saver.rejected,
                saver.overcrowded,
                saver.retried,
                saver.impatient,
                saver.cleaned_up,
            ):
                await shape()
        spark.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
