"""A store that fails for a while: each command that waits for it says why, and goes on by itself."""

import re
import threading
from pathlib import Path

import pytest

from tests.conftest import closed

REASON = "too many levels of symbolic links"


def stderr_of(command, folder, *args):
    """All that a command says that meets a closed folder, which is opened once it has said why it waits."""
    with closed(folder):
        running = command.popen(*args)
        timer = threading.Timer(60, running.kill)
        timer.start()
        lines = []
        for line in running.stderr:
            lines.append(line)
            if REASON in line:
                break
    _, rest = running.communicate(timeout=60)
    timer.cancel()
    assert running.returncode == 0, [*lines, rest]
    return "".join(lines) + rest


@pytest.fixture
def store(stack):
    return Path(stack.settings().store)


def test_a_commit_says_why_it_is_tried_again(stack, repo, files, store):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    stack("diamond", "add", *where, "--path", files("1", {"a": "1"}))
    bundles = store / "metadata" / "bundles"
    bundles.mkdir(parents=True, exist_ok=True)
    said = stderr_of(stack, bundles / repo, "diamond", "commit", *where, "--message", "m")
    assert re.search(rf"make bundle: attempt \d failed: cannot use the store {store}/metadata: {REASON}", said)
    assert said.splitlines()[-1].endswith("1 file, 1 B, no conflicts")


@pytest.mark.usefixtures("housekeeping_schedule")
def test_housekeeping_says_why_it_is_tried_again(stack, repo, store):
    stack("diamond", "initialize", "--repo", repo)
    run = ("housekeeping", "run", "--older-than", "520w", "--dry-run")
    said = stderr_of(stack, store / "vmetadata" / "diamonds" / repo, *run)
    assert re.search(rf"clean repo: attempt \d failed: cannot use the store {store}/vmetadata: {REASON}", said)
    assert "0 diamonds would be removed" in said.splitlines()[-1]
