"""A diamond that the release before opened, on the release before: today's code finishes it.

`released/` holds the packages of that release as they were in git. With the next one:
`git archive COMMIT datamon workflows activities worker starter | xz -9e > tests/e2e/released/COMMIT.tar.xz`.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Command, tree, until

[RELEASED] = (Path(__file__).parent / "released").glob("*.tar.xz")


class Release(Command):
    """The command `datamon` as it was."""

    def popen(self, *args, **options):
        code = self.home.parent / "code"
        environment = self.environment | {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
        started = "from starter.cli import main; main()"
        command = [sys.executable, "-c", started, *args]
        pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, cwd=code, **pipes, **options)


@pytest.fixture
def release(tmp_path):
    """The release before, with a home of its own."""
    with tarfile.open(RELEASED) as archive:
        archive.extractall(tmp_path / "code", filter="data")
    command = Release(tmp_path / "home")
    where = "import datamon, workflows; print(datamon.__file__, workflows.__file__)"
    environment = command.environment | {"PYTHONPATH": str(tmp_path / "code"), "PYTHONSAFEPATH": "1"}
    told = subprocess.run([sys.executable, "-c", where], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.count(str(tmp_path / "code")) == 2, "it is the old code that runs"
    return command


pytestmark = pytest.mark.timeout(300)


def serve(command):
    """`datamon up` in the foreground, which is all of a stack in one process and what it starts."""
    process = command.popen("up")
    until(lambda: "Ctrl-C stops it" in process.stderr.readline())
    return process


def stop(process):
    process.terminate()
    process.communicate(timeout=60)


def test_todays_code_finishes_what_the_release_before_opened(release, files, tmp_path):
    """Open in all the ways there are: untouched, with done splits, with one that uploads, with a commit that waits."""
    before = serve(release)
    release("repo", "create", "--repo", "r")
    first = release("bundle", "upload", "--repo", "r", "--path", files("z", {"z": "0"}), "--message", "first")
    opened = [("--repo", "r", "--diamond", release("diamond", "initialize", "--repo", "r")) for _ in range(4)]
    for where in opened[1:]:
        release("diamond", "add", *where, "--path", files("p", {"a": "1", "b": "2"}))
    pipe = tmp_path / "q" / "pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    release.run("diamond", "add", *opened[1], "--path", str(pipe.parent), "--split", "s", "--create", exit_code=1)
    large = files("large", {})
    with (Path(large) / "huge").open("wb") as file:
        file.truncate(4 << 30)
    with release.popen("diamond", "add", *opened[2], "--path", large, "--detach") as adding:
        assert adding.communicate(timeout=60) is not None
    wait = ("diamond", "commit", *opened[3], "--message", "waited", "--wait", "--splits", "2")
    waiting = [release.popen(*wait) for _ in range(2)]
    until(lambda: any(commit.poll() is not None for commit in waiting))  # so the other one was accepted
    assert release.json("diamond", "get", *opened[2])["splits"]["running"] == 1
    stop(before)
    for commit in waiting:
        commit.kill()
        commit.communicate()

    today = Command(release.home)
    after = serve(today)
    try:
        today("diamond", "add", *opened[0], "--path", files("n", {"n": "3"}))
        assert today("diamond", "commit", *opened[0], "--message", "all of today")
        pipe.unlink()
        (pipe.parent / "c").write_text("again")
        today("diamond", "add", *opened[1], "--path", str(pipe.parent), "--split", "s")
        bundle = today("diamond", "commit", *opened[1], "--message", "half of today", "--label", "latest")
        today("bundle", "download", "--repo", "r", "--bundle", bundle, "--destination", str(tmp_path / "out"))
        assert tree(tmp_path / "out") == {"a": "1", "b": "2", "c": "again"}
        today("diamond", "commit", *opened[2], "--message", "and what was uploading", "--wait")
        assert today.json("diamond", "get", *opened[2])["splits"] == {"running": 0, "done": 2, "failed": 0}
        today("diamond", "add", *opened[3], "--path", files("n", {"n": "3"}))
        until(lambda: today.json("diamond", "get", *opened[3])["state"] == "done", 60)
        made = today.json("bundle", "list", "--repo", "r")
        assert sorted(one["message"] for one in made)[-1] == "waited"
        assert len(made) == 5
        assert first in {one["id"] for one in made}
        today("bundle", "download", "--repo", "r", "--bundle", first, "--destination", str(tmp_path / "first"))
        assert tree(tmp_path / "first") == {"z": "0"}
    finally:
        stop(after)
