"""Every example runs as it is."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import until

EXAMPLES = Path(__file__).parents[2] / "examples"


def start(stack, script, *args):
    return subprocess.Popen(
        [sys.executable, EXAMPLES / script, *args],
        env=stack.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(stack, script, *args):
    with start(stack, script, *args) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    return out


def test_all_of_them_are_tried_and_listed():
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {*FANS, "restarting_node.py"}
    assert scripts == set(re.findall(r"^\| \[(\w+\.py)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE))


FANS = ("client.py", "without_asyncio.py", "raw_signals.py", "fan_out.py")


@pytest.mark.parametrize("script", FANS)
def test_several_folders_become_one_bundle(stack, repo, files, script):
    paths = [files("p1", {"a": "1", "b": "1"}), files("p2", {"b": "2", "c": "2"})]
    out = run(stack, script, repo, *paths)
    [bundle] = stack.json("bundle", "list", "--repo", repo)
    assert f"bundle {bundle['id']}" in out
    assert (bundle["files"], bundle["conflicts"]) == (4, 1)


def test_a_split_that_fails_does_not_hold_up_the_others(stack, repo, files, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "link").symlink_to("/etc/passwd")
    out = run(stack, "client.py", repo, files("p1", {"a": "1"}), str(tmp_path / "bad"))
    assert re.search(r"split \w+ failed: .*leads out of the source", out)
    assert re.search(r"bundle \w+: 1 files", out)


def test_a_node_that_is_killed_gives_its_split_back(stack, repo, files, sparse, tmp_path):
    diamond, state = stack("diamond", "initialize", "--repo", repo), str(tmp_path / "split-id")
    where = ("--repo", repo, "--diamond", diamond)
    with start(stack, "restarting_node.py", repo, diamond, sparse(400), state) as node:
        assert "is running" in node.stdout.readline()
        until(lambda: [s["state"] for s in stack.json("diamond", "split", "list", *where)] == ["running"])
        node.send_signal(signal.SIGKILL)
    path = files("p1", {"a": "1"})
    assert "is done: 1 files" in run(stack, "restarting_node.py", repo, diamond, path, state)
    assert "is done already" in run(stack, "restarting_node.py", repo, diamond, path, state)
    [split] = stack.json("diamond", "split", "list", *where)
    assert (split["id"], split["generation"]) == (Path(state).read_text(), 2)
