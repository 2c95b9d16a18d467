"""Housekeeping through the client, on a server and a store of its own."""

import asyncio
from datetime import timedelta

import pytest

from datamon.bundles.catalog import get_bundle
from datamon.core.errors import AlreadyExists, BadUsage, NotFound
from datamon.diamonds.catalog import list_diamonds
from datamon.diamonds.findings import Verdict
from datamon.diamonds.model import DiamondState
from datamon.starter.advice import sentence
from datamon.stores import keys
from datamon.workflows.common.names import HOUSEKEEPING
from datamon.workflows.housekeeping import HousekeepingWorkflow
from tests.workflow.helpers import add_started, splits, until
from tests.workflow.server import private_server

NOW, LATER = timedelta(0), timedelta(days=7)


async def made(datamon, name, path=None, repo="r"):
    diamond = await datamon.diamonds.initialize(repo, name)
    if path is not None:
        await (await diamond.add(path)).result()
    return diamond


def verdicts(report):
    return {finding.diamond: finding.verdict for finding in report.findings}


async def test_a_round_of_housekeeping(tmp_path, files, spark):
    async with private_server(tmp_path, spark) as datamon:
        context, path = datamon.context, files("p", {"a": "1"})
        await datamon.repos.create("other")
        done, damaged = await made(datamon, "done", path), await made(datamon, "damaged", path)
        kept = [(await diamond.commit("m")).bundle for diamond in (done, damaged)]
        canceled = await made(datamon, "canceled", path, "other")
        await canceled.cancel()
        running = await made(datamon, "open", path)
        slow = await add_started(running)
        [reference] = get_bundle(context, "r", kept[1]).lists
        context.metadata.delete(keys.file_list(reference.digest))

        young = await datamon.housekeeping.run(LATER)
        assert (young.repos, young.removed, young.findings) == (2, 0, [])

        looked = await datamon.housekeeping.run(NOW, NOW, dry_run=True)
        expected = {
            "done": Verdict.REMOVE,
            "canceled": Verdict.REMOVE,
            "damaged": Verdict.KEEP,
            "open": Verdict.ABANDONED,
        }
        assert verdicts(looked) == expected
        assert (looked.removed, looked.objects, looked.kept, looked.abandoned) == (2, 0, 1, 1)
        assert [d.id for d in list_diamonds(context, "r")] == ["damaged", "done", "open"], "shown until then"

        report = await datamon.housekeeping.run(NOW, LATER)
        assert (report.repos, report.removed, report.kept, report.abandoned, report.failures) == (2, 2, 1, 0, {})
        [damage] = [finding for finding in report.findings if finding.verdict is Verdict.KEEP]
        assert f"its bundle {kept[1]} is not complete" in damage.note
        assert [d.id for d in list_diamonds(context, "r")] == ["damaged", "open"]
        assert list(context.vmetadata.keys(keys.diamond_folder("r", "done"))) == []
        assert list(context.vmetadata.keys(keys.diamonds("other"))) == []
        assert get_bundle(context, "r", kept[0]).files == 1, "the bundle stays"
        assert splits(datamon, running)[slow].state == "running"
        assert (await running.status()).state is DiamondState.INITIALIZED

        with pytest.raises(AlreadyExists):
            await datamon.diamonds.initialize("r", "done")
        await done.handle.result()
        assert (await datamon.housekeeping.run(NOW, LATER)).removed == 0
        await running.cancel()


async def test_a_schedule(tmp_path, files, spark):
    async with private_server(tmp_path, spark) as datamon:
        housekeeping = datamon.housekeeping
        with pytest.raises(NotFound, match="there is no schedule 'housekeeping'") as missing:
            await housekeeping.scheduled()
        assert "datamon housekeeping schedule" in sentence(missing.value)
        with pytest.raises(BadUsage, match="'whenever' is not a schedule"):
            await housekeeping.schedule("whenever")
        weekly = await housekeeping.schedule()
        assert (weekly.cron, weekly.older_than_seconds, len(weekly.next)) == ("0 3 * * SUN", 7 * 86400, 3)
        daily = await housekeeping.schedule("0 4 * * *", older_than=NOW)
        assert (daily.cron, daily.older_than_seconds) == ("0 4 * * *", 0)
        canceled = await made(datamon, "canceled")
        await canceled.cancel()
        await datamon.client.get_schedule_handle(HOUSEKEEPING).trigger()

        async def ended():
            query = f"WorkflowType = '{HousekeepingWorkflow.__name__}' AND ExecutionStatus = 'Completed'"
            return [found.id async for found in datamon.client.list_workflows(query)]

        await asyncio.wait_for(until(ended), 60)
        assert list(list_diamonds(datamon.context, "r")) == []
        await housekeeping.unschedule()
        with pytest.raises(NotFound):
            await housekeeping.unschedule()


async def test_many_repos_cross_continue_as_new(tmp_path, spark):
    async with private_server(tmp_path, spark, events=30) as datamon:
        for number in range(40):
            await datamon.repos.create(f"repo-{number:02d}")
        broken = datamon.context.metadata.root / keys.repo("repo-20")
        broken.write_text("no descriptor")
        report = await datamon.housekeeping.run(NOW)
        assert report.repos == 41
        assert list(report.failures) == ["repo-20"]
        runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{HOUSEKEEPING}'")]
        assert len(runs) > 1
