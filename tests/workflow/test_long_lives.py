"""A diamond whose history is cut off early and often, on a server that suggests to continue as new at once."""

import asyncio

from datamon.bundles.catalog import list_bundles
from datamon.core.contributors import Contributor
from datamon.core.ids import new_id
from datamon.sources.source import Source
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import AddSplit
from tests.workflow.server import private_server

EVENTS = 45  # instead of 4,096


async def test_nothing_is_lost_when_the_workflow_continues_as_new(tmp_path, files, spark):
    count = 30
    async with private_server(tmp_path, spark, EVENTS) as datamon:
        diamond = await datamon.diamonds.initialize("r", options=Options(window=5))
        commit = asyncio.ensure_future(diamond.commit("m", wait=True, splits=count))
        for batch in range(0, count, 3):
            paths = [files(f"p{n}", {f"{n:03d}": f"{n}", "same": "s"}) for n in range(batch, batch + 3)]
            await diamond.add_all(paths)
        bundle = await commit
        assert (bundle.files, bundle.conflicts, bundle.left_out) == (count + 1, 0, [])
        [made] = list_bundles(datamon.context, diamond.repo)
        assert [split.position for split in made.origin.splits] == list(range(1, count + 1))
        assert {split.generation for split in made.origin.splits} == {1}
        runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{diamond.handle.id}'")]
        assert len(runs) > 3


async def test_a_split_terminated_behind_the_back_of_a_continued_diamond_is_noticed(tmp_path, files, spark):
    """The run that started it, and would have seen its end, is over."""
    async with private_server(tmp_path, spark, EVENTS) as datamon:
        options = Options(probe_seconds=0.5)
        diamond = await datamon.diamonds.initialize("r", options=options)
        add = AddSplit("slow", new_id(), Source("/nowhere"), "datamon@nobody", "nobody", Contributor("Ada"))
        await diamond.handle.signal(DiamondWorkflow.add, [add])
        first = (await diamond.handle.describe()).run_id
        while (await diamond.handle.describe()).run_id == first:
            await (await diamond.add(files("p", {"a": "1"}))).result()
        commit = asyncio.ensure_future(diamond.commit("m", wait=True))
        await datamon.client.get_workflow_handle(f"split/r/{diamond.id}/slow").terminate()
        bundle = await commit
        [left] = bundle.left_out
        assert (left.id, left.reason) == ("slow", "its workflow was terminated")
