"""Many splits, and much time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.worker import UnsandboxedWorkflowRunner

from datamon.diamonds.catalog import list_splits
from datamon.diamonds.model import SplitState
from datamon.workflows.common.options import Options
from tests.workflow.helpers import bundles, until
from tests.workflow.server import private_server, time_skipping_server

WINDOW = 50
EVENTS = 1_200  # instead of 4,096, so that the diamond continues as new all the more often


@pytest.mark.timeout(600)
async def test_more_than_a_thousand_splits(tmp_path, spark, files):
    """Added in batches and one by one, while a commit waits for all of them; none is lost, and none runs twice."""
    empty = files("empty", {})
    async with private_server(tmp_path, spark, EVENTS, UnsandboxedWorkflowRunner()) as datamon:
        diamond = await datamon.diamonds.initialize("r", options=Options(window=WINDOW))
        commit = asyncio.ensure_future(diamond.commit("m", wait=True, splits=1_020))
        splits = [split for _ in range(3) for split in await diamond.add_all([empty] * 330)]
        splits += [await diamond.add(empty) for _ in range(30)]
        waiting = asyncio.gather(*(split.result() for split in splits[::10]))  # as a program would: all at once
        ids = {split.id for split in splits}
        running_at_once = 0
        while not commit.done():
            status = await diamond.status()
            running_at_once = max(running_at_once, status.splits[SplitState.RUNNING] - status.waiting)
            await asyncio.wait([commit], timeout=1)
        answer = await commit
        assert answer.left_out == []
        assert len(await waiting) == 102
        [made] = bundles(datamon, diamond)
        assert {split.id for split in made.origin.splits} == ids
        assert [split.position for split in made.origin.splits] == list(range(1, 1_021))
        assert {split.generation for split in made.origin.splits} == {1}
        assert len(list(list_splits(datamon.context, "r", diamond.id))) == 1_020
        assert 1 < running_at_once <= WINDOW
        runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{diamond.handle.id}'")]
        assert len(runs) > 4

        async def all_seen():  # the list of workflows follows with some delay
            return (await datamon.client.count_workflows("DatamonKind = 'split'")).count >= 1_020

        await until(all_seen)
        assert (await datamon.client.count_workflows("DatamonKind = 'split'")).count == 1_020, "none ran twice"


async def test_a_diamond_left_alone_for_months_still_commits(tmp_path, spark, files):
    async with time_skipping_server(tmp_path, spark) as (server, datamon):
        diamond = await datamon.diamonds.initialize("r")
        await (await diamond.add(files("p", {"a": "1"}))).result()
        await server.fast_forward(diamond.handle, timedelta(days=200))
        await (await diamond.add(files("q", {"b": "2"}))).result()
        bundle = await diamond.commit("at last")
        assert (bundle.files, bundle.left_out) == (2, [])
        [made] = bundles(datamon, diamond)
        assert datetime.fromisoformat(f"{made.created[:19]}+00:00") > datetime.now(UTC) + timedelta(days=199)
