"""A store whose disk is full: whoever looks, wherever people look, sees why nothing goes on, and what to do."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from datamon.starter.client import Datamon
from datamon.workflows.common.names import split_workflow
from tests.conftest import Command, until, until_it_says

DISK = 20 << 20


def test_a_full_disk_is_seen_everywhere_until_there_is_room(tmp_path):
    """The story runs in mounts of its own, so it takes no right of the tests to mount something."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    command = ["unshare", *flags, sys.executable, "-m", "tests.e2e.test_full_disk", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    reason = f"the store {tmp_path}/disk/store/blob is full: no space left on device"
    for note in (seen["list"]["retry"]["note"], seen["get"]["retry"]["note"], seen["diamond"]["retrying"][0]["note"]):
        assert reason in note
        assert note.startswith("attempt ")
        assert "begins in" in note or "about to begin" in note or "under way" in note
    assert seen["get"]["retry"]["code"] == "StoreFull"
    assert seen["diamond"]["retrying"][0]["split"] == seen["list"]["id"]
    assert reason in seen["table"]
    failed = r"being tried again\W+upload split: attempt \d failed at \d\d:\d\d:\d\d UTC: `"
    assert re.search(failed + reason, seen["details"])
    assert f"upload split: attempt 1 failed: {reason}; the next in 1 s" in seen["log"]
    assert f"{reason}; make room there, and running work then continues by itself" in seen["stderr"]
    assert "being tried again" not in seen["details at the end"]


def story(folder):
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
    (folder / "data").mkdir()
    (folder / "data" / "large").write_bytes(os.urandom(2 * DISK))
    command = Command(folder / "home", {"DATAMON_STORE": str(disk / "store")})
    command("up", "--detach")
    try:
        command("repo", "create", "--repo", "r")
        where = ("--repo", "r", "--diamond", command("diamond", "initialize", "--repo", "r"))
        adding = command.popen("diamond", "add", *where, "--path", str(folder / "data"))
        split = adding.stdout.readline().strip()
        one = ("--split", split)
        seen = {"list": until(lambda: _retrying(command, where))}
        seen["get"] = command.json("diamond", "split", "get", *where, *one)
        seen["diamond"] = command.json("diamond", "get", *where)
        seen["table"] = command("diamond", "split", "list", *where)
        seen["details"] = _details(command, where, split)
        seen["stderr"] = until_it_says(adding, "make room there")
        subprocess.run(["mount", "-o", f"remount,size={6 * DISK}", disk], check=True)
        _, end = adding.communicate(timeout=60)
        assert adding.returncode == 0, end
        seen["log"] = (folder / "home" / "up.log").read_text()
        seen["details at the end"] = _details(command, where, split)
    finally:
        command("down")
    print(json.dumps(seen))


def _retrying(command, where):
    [split] = command.json("diamond", "split", "list", *where)
    return split if split["retry"] is not None else None


def _details(command, where, split):
    """What the Web UI shows under Current Details."""

    async def ask():
        async with await Datamon.connect(command.settings()) as datamon:
            handle = datamon.client.get_workflow_handle(split_workflow(where[1], where[3], split))
            return (await handle.query("__temporal_workflow_metadata")).current_details

    return asyncio.run(ask())


if __name__ == "__main__":
    story(Path(sys.argv[1]))
