"""A diamond that the release before opened, on the release before: today's code finishes it.

The release before is the wheel in `released/`, where each release takes the place of the one before. That all this can
fail is shown with a copy of today's packages, laid out as they are installed, that somebody has edited carelessly.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Command, tree, until

ROOT = Path(__file__).parents[2]
RELEASED = sorted((Path(__file__).parent / "released").glob("*.whl"))
PARTS = ("workflows", "activities", "worker", "starter")  # these stand at the top of the checkout
RUN = """        await self._live()
"""
CARELESS = """        await workflow.sleep(1)
        await self._live()
"""

pytestmark = pytest.mark.timeout(300)


class Release(Command):
    """The command `datamon` as it was, with its code beside its home."""

    @property
    def code(self):
        return self.home.parent / "code"

    @property
    def environment(self):
        return super().environment | {"PYTHONPATH": str(self.code), "PYTHONSAFEPATH": "1"}

    def popen(self, *args, **options):
        command = [sys.executable, "-c", "from datamon.starter.cli import main; main()", *args]
        pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment, cwd=self.code, **pipes, **options)


def copy_of_today(code):
    """Today's packages as they are installed."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "datamon", code / "datamon", ignore=ignored)
    for part in PARTS:
        shutil.copytree(ROOT / part, code / "datamon" / part, ignore=ignored)


def check_where(release):
    """It is the code beside its home that runs, in all its parts."""
    modules = ["datamon", *(f"datamon.{part}" for part in PARTS)]
    program = f"import {', '.join(modules)}; print(*({', '.join(f'{one}.__file__' for one in modules)},), sep='\\n')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=release.environment, capture_output=True, text=True, check=True)
    assert all(file.startswith(f"{release.code}/datamon/") for file in done.stdout.splitlines()), done.stdout


@pytest.fixture
def release(tmp_path):
    """The release before, with a home of its own."""
    command = Release(tmp_path / "home")
    [wheel] = RELEASED
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(command.code)
    check_where(command)
    return command


@pytest.fixture
def careless(tmp_path):
    """Today's code, but for a workflow that waits a second before it does anything."""
    command = Release(tmp_path / "home")
    copy_of_today(command.code)
    edited = command.code / "datamon" / "workflows" / "diamonds" / "diamond.py"
    assert edited.read_text().count(RUN) == 1
    edited.write_text(edited.read_text().replace(RUN, CARELESS))
    check_where(command)
    return command


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


def test_what_a_careless_edit_leaves_open_cannot_be_finished(careless, files):
    """Else the test above would pass whatever somebody does to a workflow."""
    before = serve(careless)
    careless("repo", "create", "--repo", "r")
    where = ("--repo", "r", "--diamond", careless("diamond", "initialize", "--repo", "r"))
    careless("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    stop(before)
    log = careless.home / "temporal.log"
    assert "[TMPRL1100]" not in log.read_text()

    today = Command(careless.home)
    after = serve(today)
    with today.popen("diamond", "commit", *where, "--message", "m") as commit:
        try:
            until(lambda: "[TMPRL1100]" in log.read_text())  # what a worker tells the server of a workflow gone astray
            assert commit.poll() is None, "it still waits for a workflow that cannot go on"
        finally:
            commit.kill()
            commit.communicate()
            stop(after)
