"""Many who want to know of splits, and few questions."""

import asyncio

import pytest
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from datamon.core.errors import Failed
from datamon.starter.split_queries import SplitQueries
from datamon.worker.connection.failures import retry_while_busy
from datamon.workflows.common.names import STALE_STATE
from datamon.workflows.diamonds.diamond import PAGE


class Diamond:
    """Answers with what it was asked for, and counts how often."""

    def __init__(self):
        self.asked = []

    async def look_up(self, splits):
        self.asked.append(list(splits))
        await asyncio.sleep(0.01)
        if "broken" in splits:
            raise OSError("no answer")
        return [f"status of {split}" for split in splits]


async def test_those_who_ask_together_get_one_answer():
    diamond = Diamond()
    split_queries = SplitQueries(diamond.look_up)
    wanted = [f"s{number}" for number in range(2 * PAGE + 1)]
    answers = await asyncio.gather(*(split_queries.get(split) for split in [*wanted, "s0"]))
    assert answers == [f"status of {split}" for split in [*wanted, "s0"]]
    assert [len(asked) for asked in diamond.asked] == [PAGE, PAGE, 1]


async def test_who_asks_later_gets_a_fresh_answer():
    diamond = Diamond()
    split_queries = SplitQueries(diamond.look_up)
    first = asyncio.create_task(split_queries.get("a"))
    await asyncio.sleep(0.005)
    await asyncio.gather(first, split_queries.get("a"), split_queries.get("b"))
    assert diamond.asked == [["a"], ["a", "b"]]


async def test_all_learn_of_a_failure_and_can_ask_again():
    split_queries = SplitQueries(Diamond().look_up)
    failed = await asyncio.gather(split_queries.get("broken"), split_queries.get("a"), return_exceptions=True)
    assert [str(error) for error in failed] == ["no answer"] * 2
    assert await split_queries.get("a") == "status of a"


async def test_one_who_leaves_takes_nothing_from_the_others():
    split_queries = SplitQueries(Diamond().look_up)
    leaving, staying = asyncio.create_task(split_queries.get("a")), asyncio.create_task(split_queries.get("a"))
    await asyncio.sleep(0.005)
    leaving.cancel()
    assert await staying == "status of a"
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_nobody_waits_for_ever_when_the_asking_is_cut_off():
    split_queries = SplitQueries(Diamond().look_up)
    waiting = asyncio.create_task(split_queries.get("a"))
    await asyncio.sleep(0.005)
    split_queries._asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 1)
    assert await split_queries.get("b") == "status of b"


async def test_who_is_bid_to_ask_again_does():
    """By a server that is busy, or a worker that reads the workflow anew: found by torture, seed 20262118."""
    busy = RPCError("consistent query buffer is full", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
    stale = WorkflowQueryFailedError(STALE_STATE)
    answers = [busy, stale, busy, "at last"]

    async def ask():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await retry_while_busy(ask) == "at last"
    answers = [RPCError("gone", RPCStatusCode.NOT_FOUND, b""), "never"]
    with pytest.raises(RPCError, match="gone"):
        await retry_while_busy(ask)
    answers = [WorkflowQueryFailedError("no such page"), "never"]
    with pytest.raises(Failed, match="could not answer: no such page"):
        await retry_while_busy(ask)
