"""A diamond whose history is cut off early and often, on a server that suggests to continue as new at once."""

import asyncio

from datamon import catalog
from tests.workflow.server import impatient_server
from workflows.messages import Options

EVENTS = 60  # instead of 4,096


async def test_nothing_is_lost_when_the_workflow_continues_as_new(tmp_path, files):
    count = 30
    async with impatient_server(tmp_path, EVENTS) as datamon:
        diamond = await datamon.diamonds.initialize("r", options=Options(window=5))
        commit = asyncio.ensure_future(diamond.commit("m", wait=True, splits=count))
        for batch in range(0, count, 3):
            paths = [files(f"p{n}", {f"{n:03d}": f"{n}", "same": "s"}) for n in range(batch, batch + 3)]
            await diamond.add_all(paths)
        bundle = await commit
        assert (bundle.files, bundle.conflicts, bundle.left_out) == (count + 1, 0, [])
        [made] = catalog.bundles(datamon.context, diamond.repo)
        assert [split.position for split in made.diamond.splits] == list(range(1, count + 1))
        assert {split.generation for split in made.diamond.splits} == {1}
        runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{diamond.handle.id}'")]
        assert len(runs) > 3
