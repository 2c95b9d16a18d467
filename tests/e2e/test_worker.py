"""`datamon worker`: another host, which sees other disks."""

import signal
import time

import pytest

from tests.conftest import Command
from tests.e2e.plain_server import plain_server


@pytest.fixture
def elsewhere(stack, tmp_path):
    """The command as it is on another host, with the same server and store."""
    return stack.of_another_host(tmp_path / "elsewhere", f"host-{tmp_path.name[-20:]}")


def start_worker(elsewhere):
    worker = elsewhere.popen("worker", "--queue", f"datamon@{elsewhere.settings().host}")
    assert "serving" in worker.stderr.readline()
    return worker


def stop_worker(worker):
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert "Traceback" not in err
    assert time.monotonic() - began < 20


def test_an_upload_runs_where_its_data_is(stack, elsewhere, repo, files):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    worker = start_worker(elsewhere)
    elsewhere("diamond", "add", *where, "--path", files("there", {"a": "1"}))
    stack("diamond", "add", *where, "--path", files("here", {"b": "2"}))
    hosts = {
        split["source"].rpartition("/")[2]: split["host"] for split in stack.json("diamond", "split", "list", *where)
    }
    assert hosts == {"there": elsewhere.settings().host, "here": stack.settings().host}
    bundle = elsewhere("diamond", "commit", *where, "--message", "m")
    assert stack.json("bundle", "get", "--repo", repo, "--bundle", bundle)["files"] == 2
    stop_worker(worker)


def test_a_worker_that_is_stopped_hands_its_upload_to_the_next_one(stack, elsewhere, repo, sparse):
    large = sparse(3)
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    worker = start_worker(elsewhere)
    chunks = (stack.home / "store" / "blob" / "chunks").rglob
    before = set(chunks("*"))
    elsewhere("diamond", "add", *where, "--path", large, "--detach")
    while [s["state"] for s in stack.json("diamond", "split", "list", *where)] != ["running"]:
        pass
    stop_worker(worker)
    assert [(s["state"], s["reason"]) for s in stack.json("diamond", "split", "list", *where)] == [("running", "")]
    worker = start_worker(elsewhere)
    bundle = stack("diamond", "commit", *where, "--message", "m", "--wait")
    assert stack.json("bundle", "get", "--repo", repo, "--bundle", bundle)["bytes"] == 3 << 30
    assert len(set(chunks("*")) - before) <= 2  # all of its chunks are equal
    stop_worker(worker)


def test_a_server_without_our_search_attributes_is_refused_with_what_to_do(elsewhere, tmp_path):
    with plain_server() as address:
        lost = Command(tmp_path / "lost", {"TEMPORAL_ADDRESS": address})
        said = lost.refused("worker", exit_code=1)
    assert "temporal operator search-attribute create --name DatamonRepo --type Keyword" in said
