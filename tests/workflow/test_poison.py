"""Messages that nobody should send. None of them may stop a workflow: a task that fails is tried again for ever."""

import asyncio
import random
import socket
from contextlib import suppress

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError

from datamon.core.errors import CorruptObject, SplitFailed
from datamon.workflows.common.options import Options
from tests.workflow.helpers import add_started, bundles, until
from tests.workflow.server import private_server

LONG = "x" * 5_000
PATH = {"path": "/p", "host": "nobody"}


def raw(data, encoding="json/plain"):
    return RawValue(Payload(metadata={"encoding": encoding.encode()}, data=data))


POISON = {
    "add": [
        [],
        [None],
        [5],
        ["text"],
        [{}],
        [[None, 5, [], "x"]],
        [[{"path": 5}]],
        [[{"path": None, "host": "nobody"}]],
        [[{"path": "/p"}]],
        [[PATH], [PATH]],
        [[PATH | {"contributor": "Ada"}]],
        [[PATH | {"contributor": {"name": 5}}]],
        [[PATH | {"split": "../../x"}]],
        [[PATH | {"split": 5}]],
        [[PATH | {"tag": LONG}]],
        [[PATH | {"tag": "a\nb"}]],
        [[{"path": "/" + LONG, "host": "nobody"}]],
        [[{"path": "/p", "host": LONG}]],
        [[PATH | {"queue": LONG}]],
        [[PATH | {"queue": "/_sys/x"}]],
        [[PATH | {"request": LONG}]],
        [[PATH | {"name_filter": "("}]],
        [[PATH | {"name_filter": "a{99999999999999999999}"}]],
        [[PATH | {"name_filter": "(" * 1500 + ")" * 1500}]],
        [[PATH | {"name_filter": "(?i)" + "[\x00-\uffff]" * 580}]],
        [[PATH | {"files": "../../../etc/passwd"}]],
        [[PATH | {"skip_on_error": "yes"}]],
        [[{"path": "\udc80", "host": "nobody"}]],
        [[PATH | {"tag": "\ud800"}]],
        [[{}] * 100_000],
        [raw(b"{")],
        [raw(b"\xff\xfe")],
        [raw(b"abc", "binary/plain")],
        [raw(b"abc", "binary/encrypted")],
        [raw(b"abc", "no/such/encoding")],
    ],
    "commit": [
        [],
        [None],
        ["March"],
        [{"message": 5}],
        [{"message": ""}],
        [{"message": "\ud800"}],
        [{"message": "m" * 100_000}],
        [{"message": "m", "mode": "all"}],
        [{"message": "m", "order": 5}],
        [{"message": "m", "splits": "many"}],
        [{"message": "m", "splits": -1}],
        [{"message": "m", "label": "../x"}],
        [{"message": "m", "request": LONG}],
        [{"message": "m"}, {"message": "m"}],
        [raw(b"[[[")],
    ],
    "split_changed": [
        [],
        [None],
        [{"split": "x"}],
        [{"split": 5, "generation": "1", "state": "done"}],
        [{"split": "x", "generation": 1, "state": "gone"}],
        [{"split": "x", "generation": 1, "state": "done", "files": 10**4200}],
        [{"split": "x", "generation": 1, "state": "done", "reason": "x" * 100_000}],
        [{"split": "x", "generation": 1, "state": "done"}, 5],
    ],
    "cancel": [
        [5],
        [{"reason": 5}],
        [{"reason": "\ud800"}],
        [{"reason": LONG}],
        [{}, {}],
        [raw(b"abc", "binary/plain")],
    ],
    "no_such_signal": [[], [5]],
}


async def failed_tasks(handle):
    events = (await handle.fetch_history()).events
    return [e for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]


async def is_well(diamond):
    """Whether it has heard all, and none of its tasks failed."""
    with suppress(TimeoutError):
        status = await asyncio.wait_for(diamond.status(), 10)
        return status.state == "initialized" and await failed_tasks(diamond.handle) == []
    return False


@pytest.fixture
async def diamond(datamon, repo):
    return await datamon.diamonds.initialize(repo)


async def test_no_message_stops_a_diamond(diamond, files):
    for name, messages in POISON.items():
        for words in messages:
            await diamond.handle.signal(name, args=words)
            assert await is_well(diamond), (name, str(words)[:100])
    await (await diamond.add(files("p", {"a": "1"}))).result()
    assert (await diamond.commit("m")).files == 1


async def test_no_update_or_query_stops_a_diamond(diamond, files):
    """Whoever sends one by hand is told that it was not understood. A newer version may say more than we know."""
    taken = []
    for name in ("commit", "cancel", "initialized", "no_such_update"):
        for words in [*POISON.get(name, [[5], [5, 5]]), [LONG]]:
            if name == "cancel" and words == [{}, {}]:
                continue  # what is too much is left out, and the rest is a good one
            with suppress(WorkflowUpdateFailedError, RPCError):
                await asyncio.wait_for(diamond.handle.execute_update(name, args=words), 10)
                taken.append(name)
            assert await is_well(diamond), (name, str(words)[:100])
    assert set(taken) == {"initialized"}, "it takes no words, so any are left out"
    for name in ("status", "splits", "split", "look_up", "commit", "no_such_query"):
        for words in ([None], [{}], [-1], [LONG], [["x"] * 1000], [raw(b"{")], [5, 5, 5]):
            with suppress(WorkflowQueryFailedError, RPCError):
                await diamond.handle.query(name, args=words)
            assert await is_well(diamond), (name, str(words)[:100])
    newer = PATH | {"path": files("p", {"a": "1"}), "host": socket.gethostname(), "priority": {"is": ["new"]}}
    await diamond.handle.signal("add", args=[[newer | {"split": "s"}]])
    await diamond.split("s").result()
    answer = await diamond.handle.execute_update("commit", args=[{"message": "m", "compression": "new"}])
    assert answer["files"] == 1


async def test_who_says_that_a_split_is_done_makes_no_bundle_of_it(datamon, diamond):
    """The store knows better: the commit is refused, and the diamond can be canceled."""
    split = await add_started(diamond)
    await diamond.handle.signal("split_changed", {"split": split, "generation": 1, "state": "done", "files": 7})
    with pytest.raises(CorruptObject, match="`state` is running, but the diamond knows it as done"):
        await diamond.commit("m")
    assert bundles(datamon, diamond) == []
    await diamond.cancel("a liar")
    assert (await diamond.described()).state == "canceled"


async def test_no_message_stops_a_split(diamond):
    for words in ([], [None], [5], [["x"]], ["\ud800"], [LONG], ["a", "b"], [raw(b"{")]):
        split = await add_started(diamond)
        handle = diamond.split(split).handle
        await handle.signal("probe", args=[5, 5])
        await handle.signal("stop", args=words)
        if words in (["a", "b"],) or isinstance(words[:1] and words[0], RawValue):  # not understood: it goes on
            assert await handle.query("state") == "running"
            await handle.signal("stop", "enough")
        reason = await failure_of(diamond, split)
        assert "told to stop" in reason or reason in {"enough", "?"} or (reason and reason in LONG)
        assert await failed_tasks(handle) == []


async def failure_of(diamond, split):
    with pytest.raises(SplitFailed):
        await diamond.split(split).result()
    return (await diamond.split_status(split)).reason


async def test_a_diamond_that_was_told_too_much_goes_on(tmp_path, spark):
    """Each message is small enough, and all of them together are not: what is carried into the next run is bounded."""
    async with private_server(tmp_path, spark, events=600) as datamon:
        diamond = await datamon.diamonds.initialize("r", options=Options(window=1, quiet_seconds=1, stop_seconds=2))
        for number in range(250):
            bad = {"path": "/" + "\x01" * 4000, "host": "nobody", "split": "\x01" * 90}
            await diamond.handle.signal("add", [bad, bad])
            long = {"path": f"/{number}" + "\u0436" * 250, "host": "nobody", "split": f"s{number}"}
            long["contributor"] = {"name": random.Random(number).randbytes(1900).hex(), "email": ""}
            await diamond.handle.signal("add", [long])
            await diamond.handle.signal("commit", {"message": "m", "label": "\x01" * 4000, "request": f"{number}"})
        await until(lambda: has_continued(diamond))
        status = await diamond.status()
        assert status.splits["running"] > 200
        assert status.splits["running"] < 251, "more than a diamond can carry is refused"
        await diamond.cancel("\u0436" * 2000)
        assert (await diamond.described()).state == "canceled"


async def has_continued(diamond):
    described = await diamond.handle.describe()
    return described.run_id != (await first_run(diamond))


async def first_run(diamond):
    return (await diamond.handle.describe()).raw_description.workflow_execution_info.first_run_id
