"""The embedded stack as a person meets it: up, down, a second one, Ctrl-C, taken ports, kill -9, and up again."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest

from datamon.settings.stack import is_stack_alive, running_stack, stack_pid
from datamon.worker.connection.queues import require_search_attributes
from tests.conftest import Command, until


def processes_of(home):
    """The processes that have something to do with a home folder, by their command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if str(home) in line and state != "Z":
                found[int(entry.name)] = line
    return found


@pytest.fixture
def command(tmp_path):
    """A home of the test's own; whatever was started in it is gone afterwards."""
    command = Command(tmp_path / "home")
    yield command
    if is_stack_alive(command.home):
        command("down")


def test_the_stack_is_found_by_other_commands(stack):
    status = stack.json("status")
    assert status["answers"]
    assert status["workers"] == {"datamon": True, f"datamon@{stack.settings().host}": True}
    assert status["store"] == str(stack.home / "store")
    with urllib.request.urlopen(status["ui"]) as page:
        assert page.status == 200


def test_it_listens_on_loopback_only(stack):
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{stack_pid(stack.home)}/net/{table}").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == "0A":
                listening.add(tuple(local.split(":")))
    port = f"{int(running_stack(stack.home).address.rpartition(':')[2]):04X}"
    assert [address for address, p in listening if p == port] == ["0100007F"]


async def test_search_attributes_are_registered(datamon):
    await require_search_attributes(datamon.client)
    answer = await datamon.client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    assert {"DatamonRepo", "DatamonState", "DatamonKind", "DatamonSplits"} <= set(answer.custom_attributes)


def test_the_servers_database_is_in_the_home_and_in_wal_mode(stack):
    with closing(sqlite3.connect(f"file:{stack.home}/temporal.db?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_taken_ports_are_no_obstacle(command):
    with ExitStack() as taken:
        for port in (7233, 8233):
            listener = taken.enter_context(socket.socket())
            with suppress(OSError):  # taken already
                listener.bind(("127.0.0.1", port))
                listener.listen()
        command("up", "--detach")
        stack = running_stack(command.home)
        assert not stack.address.endswith(":7233")
        assert not stack.ui.endswith(":8233")
        assert command.json("status")["address"] == stack.address
        assert command("repo", "create", "--repo", "r") == "r"
        assert command("diamond", "initialize", "--repo", "r", "--diamond", "d") == "d"


def test_one_stack_a_home(stack):
    for flags in ((), ("--detach",)):
        assert "is running: only one runs from a home folder; stop it with `datamon down`" in stack.refused(
            "up", *flags, exit_code=4
        )


def test_down_with_nothing_running(command):
    assert "nothing runs from" in command.run("down").stderr


def test_a_port_that_is_asked_for_and_taken_is_refused(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flag in ("--port", "--ui-port"):
            assert f"port {port} is taken" in command.refused("up", flag, port, exit_code=4)
            assert f"port {port} is taken" in command.refused("up", "--detach", flag, port, exit_code=4)
    assert not is_stack_alive(command.home)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_stops_everything_and_the_next_start_goes_on(command, files, number):
    """The usual ports may be taken by the stack of the other tests: then this one finds free ones."""
    up = command.popen("up")
    stack = until(lambda: running_stack(command.home))
    assert set(processes_of(command.home)) - {up.pid}, "a server runs"
    repo = command("repo", "create", "--repo", "r")
    where = ("--repo", repo, "--diamond", command("diamond", "initialize", "--repo", repo))
    command("diamond", "add", *where, "--path", files("p", {"a": "1"}))

    began = time.monotonic()
    up.send_signal(number)
    out, err = up.communicate(timeout=30)
    assert time.monotonic() - began < 15
    assert (up.returncode, out) == (0, ""), err
    assert stack.ui in err
    assert "Traceback" not in err
    assert processes_of(command.home) == {}
    assert not is_stack_alive(command.home)

    command("up", "--detach")
    assert command.json("diamond", "get", *where)["state"] == "initialized"
    bundle = command("diamond", "commit", *where, "--message", "after a restart")
    assert command.json("bundle", "get", "--repo", repo, "--bundle", bundle)["files"] == 1
    command("down")
    until(lambda: not processes_of(command.home))  # one may still be about to end that has run the last command


def test_a_signal_in_the_middle_of_the_start_leaves_nothing(command):
    up = command.popen("up")
    until(lambda: (command.home / "temporal.log").exists())
    up.send_signal(signal.SIGTERM)
    _, err = up.communicate(timeout=60)
    assert "Traceback" not in err
    assert processes_of(command.home) == {}
    assert not is_stack_alive(command.home)


def test_down_while_it_is_still_starting(command):
    up = command.popen("up")
    until(lambda: stack_pid(command.home))
    command("down")
    up.communicate(timeout=30)
    assert processes_of(command.home) == {}


def test_a_home_and_a_store_may_be_named_from_here(tmp_path):
    command = Command(Path("here"), {"DATAMON_STORE": "there"})
    command.run("up", "--detach", cwd=tmp_path)
    try:
        command.run("repo", "create", "--repo", "r", cwd=tmp_path)
        command.run("diamond", "initialize", "--repo", "r", cwd=tmp_path)
        assert (tmp_path / "there" / "metadata" / "repos" / "r").is_dir()
    finally:
        command.run("down", cwd=tmp_path)


def test_a_command_that_waits_says_that_the_server_has_gone(command, sparse):
    large = sparse(400)
    command("up", "--detach")
    repo = command("repo", "create", "--repo", "r")
    where = ("--repo", repo, "--diamond", command("diamond", "initialize", "--repo", repo))
    add = command.popen("diamond", "add", *where, "--path", large)
    assert add.stdout.readline()
    command("down")
    _, err = add.communicate(timeout=100)
    assert add.returncode == 6
    *before, last = err.strip().splitlines()
    assert last.startswith("datamon: no Temporal server at")
    assert all(line.startswith("upload split: attempt 1 failed: the worker is shutting down") for line in before), err
    assert "Traceback" not in (command.home / "up.log").read_text()


def test_a_killed_stack_leaves_no_server_and_its_work_goes_on(command, sparse):
    """kill -9 in the middle of an upload: the server goes with it, and the next start takes the upload up again."""
    large = sparse(3)
    command("up", "--detach")
    repo = command("repo", "create", "--repo", "r")
    where = ("--repo", repo, "--diamond", command("diamond", "initialize", "--repo", repo))
    split = command("diamond", "add", *where, "--path", large, "--detach")
    until(lambda: [s["state"] for s in command.json("diamond", "split", "list", *where)] == ["running"])
    until(lambda: list((command.home / "store" / "blob").rglob("chunks/*/*")))
    os.kill(stack_pid(command.home), signal.SIGKILL)
    until(lambda: processes_of(command.home) == {})
    command("up", "--detach")
    bundle = command("diamond", "commit", *where, "--message", "m", "--wait")
    described = command.json("bundle", "get", "--repo", repo, "--bundle", bundle)
    assert (described["files"], described["bytes"]) == (1, 3 << 30)
    [found] = command.json("diamond", "split", "list", *where)
    assert (found["id"], found["state"], found["attempts"]) == (split, "done", 2)


def test_a_detached_stack_says_why_it_did_not_start(command):
    command.home.parent.joinpath("home").mkdir()
    (command.home / "temporal.db").write_text("this is no database")
    said = command.refused("up", "--detach", exit_code=1)
    assert "temporal.log" in said
    assert not is_stack_alive(command.home)


def test_the_command_is_quick_and_never_imports_spark(stack, repo):
    script = """
import sys
from starter import cli
sys.argv = ["datamon", *sys.argv[1:]]
cli._run()
print("pyspark" in sys.modules, "temporalio" in sys.modules, file=sys.stderr)
import os; sys.stderr.flush(); os._exit(0)
"""

    def imported(*args):
        run = [sys.executable, "-c", script, *args]
        done = subprocess.run(run, env=stack.environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stderr.strip().splitlines()[-1].split()

    assert imported("--help") == ["False", "False"]
    assert imported("bundle", "list", "--repo", repo) == ["False", "False"]
    assert imported("diamond", "initialize", "--repo", repo) == ["False", "True"]


def test_json_is_one_document(stack):
    assert isinstance(json.loads(stack("repo", "list", "--format", "json")), list)
