"""With a key, nothing that people wrote can be read in what Temporal keeps."""

import asyncio
import base64
import os
from contextlib import suppress

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from datamon.settings.stack import running_stack
from datamon.starter.client import Datamon
from tests.conftest import Command
from tests.workflow.helpers import until

WORDS = ("SECRET-MESSAGE", "SECRET-TAG", "SECRET-FOLDER", "SECRET-PIPE", "SECRET-REASON", "secret@example.org")


def key():
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A stack with a key."""
    environment = {"DATAMON_ENCRYPTION_KEY": key(), "DATAMON_CONTRIBUTOR": "Ada <secret@example.org>"}
    command = Command(tmp_path_factory.mktemp("home"), environment)
    command("up", "--detach")
    command("repo", "create", "--repo", "r")
    yield command
    command("down")


def opened(command):
    return ("--repo", "r", "--diamond", command("diamond", "initialize", "--repo", "r", "--tag", "SECRET-TAG"))


def with_another_key(command, another=""):
    """A client of the same stack and store with this key, or none."""
    return Command(command.home, command.more | {"DATAMON_ENCRYPTION_KEY": another})


async def everything(address):
    """All that the server keeps of all workflows, as bytes."""
    client = await Client.connect(address)
    found = []
    async for workflow in client.list_workflows():
        found.append(workflow.raw_info.SerializeToString())
        handle = client.get_workflow_handle(workflow.id, run_id=workflow.run_id)
        found.append((await handle.describe()).raw_description.SerializeToString())
        found += [event.SerializeToString() async for event in handle.fetch_history_events()]
    return b"".join(found)


async def test_nothing_that_was_written_can_be_read(sealed, files, tmp_path):
    where = opened(sealed)
    sealed("diamond", "add", *where, "--path", files("SECRET-FOLDER", {"a": "1"}), "--split-tag", "SECRET-TAG")
    os.mkfifo(tmp_path / "SECRET-FOLDER" / "SECRET-PIPE")
    said = sealed.run("diamond", "add", *where, "--path", str(tmp_path / "SECRET-FOLDER"), exit_code=1)
    assert "SECRET-PIPE" in said.stderr, "whoever has the key is told"
    bundle = sealed("diamond", "commit", *where, "--message", "SECRET-MESSAGE")
    assert sealed.json("bundle", "get", "--repo", "r", "--bundle", bundle)["message"] == "SECRET-MESSAGE"
    other = opened(sealed)
    sealed("diamond", "cancel", *other, "--reason", "SECRET-REASON")
    kept = await everything(running_stack(sealed.home).address)
    assert b"binary/encrypted" in kept
    assert bundle.encode() not in kept, "not even what a commit came to"
    assert [word for word in WORDS if word.encode() in kept] == []
    log = (sealed.home / "temporal.log").read_bytes()
    assert [word for word in WORDS if word.encode() in log] == []


async def test_heartbeats_cannot_be_read_either(sealed, sparse):
    """They are kept only while an attempt is under way, so it is looked at then."""
    where = opened(sealed)
    adding = sealed.popen("diamond", "add", *where, "--path", sparse(8), "--split", "s", "--create")
    client = await Client.connect(running_stack(sealed.home).address)
    handle = client.get_workflow_handle(f"split/r/{where[3]}/s")
    while not (beats := await heartbeats(handle)):
        assert adding.poll() is None, adding.communicate()
        await asyncio.sleep(0.05)
    assert {beat.metadata["encoding"] for beat in beats} == {b"binary/encrypted"}
    assert [beat for beat in beats if b"bytes" in beat.data or b"files" in beat.data] == []
    async with await Datamon.connect(sealed.settings()) as datamon:
        split = datamon.diamonds.get("r", where[3]).split("s")
        progress = await until(split.progress)
        assert progress.phase, "whoever has the key reads them"
    sealed("diamond", "cancel", *where)
    adding.communicate(timeout=100)


async def heartbeats(handle):
    with suppress(RPCError):
        pending = (await handle.describe()).raw_description.pending_activities
        return [beat for one in pending for beat in one.heartbeat_details.payloads]
    return []


@pytest.mark.parametrize("another", ["", key()], ids=["no key", "another key"])
def test_without_the_key(sealed, another):
    where = opened(sealed)
    stranger = with_another_key(sealed, another)
    assert "DATAMON_ENCRYPTION_KEY" in stranger.refused("diamond", "commit", *where, "--message", "m", exit_code=2)
    assert sealed.json("diamond", "get", *where)["state"] == "initialized"


@pytest.mark.parametrize("bad", ["short", "not base64!", base64.b64encode(b"x" * 16).decode()])
def test_a_key_that_is_none(sealed, bad):
    said = with_another_key(sealed, bad).refused("diamond", "initialize", "--repo", "r", exit_code=2)
    assert "DATAMON_ENCRYPTION_KEY is not a key" in said
    assert bad not in said


async def test_a_message_that_no_key_opens_is_left_alone(sealed, files):
    """From the Web UI it comes unencrypted, which is taken; from a stranger it may come as garbage."""
    where = opened(sealed)
    client = await Client.connect(running_stack(sealed.home).address)
    handle = client.get_workflow_handle(f"diamond/r/{where[3]}")
    await handle.signal("add", args=[garbage()])
    await handle.signal("add", [{"path": files("p", {"a": "1"}), "host": sealed.settings().host}])
    async with await Datamon.connect(sealed.settings()) as datamon:
        [split] = await datamon.diamonds.get("r", where[3]).splits()
        await datamon.diamonds.get("r", where[3]).split(split.split).result()
    assert sealed("diamond", "commit", *where, "--message", "m")


def garbage():
    from temporalio.api.common.v1 import Payload
    from temporalio.common import RawValue

    return RawValue(Payload(metadata={"encoding": b"binary/encrypted", "key": b"?"}, data=b"garbage"))


def test_a_new_key_while_a_diamond_is_open(tmp_path, files):
    old, new = key(), key()
    before = Command(tmp_path / "home", {"DATAMON_ENCRYPTION_KEY": old})
    before("up", "--detach")
    before("repo", "create", "--repo", "r")
    where = ("--repo", "r", "--diamond", before("diamond", "initialize", "--repo", "r"))
    before("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    before("down")
    after = Command(tmp_path / "home", {"DATAMON_ENCRYPTION_KEY": f"{new},{old}"})
    after("up", "--detach")
    try:
        assert after("diamond", "commit", *where, "--message", "m")
    finally:
        after("down")
