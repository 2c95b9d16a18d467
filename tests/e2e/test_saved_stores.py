"""Stores that released versions have saved: today's code tells the same of them, and goes on in them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from blake3 import blake3

from tests.conftest import Command
from tests.e2e.save_store import QUESTIONS, SAVED
from tests.faults.checker import contents

VERSIONS = sorted(path.name for path in SAVED.iterdir())


@pytest.fixture(params=VERSIONS)
def saved(request, tmp_path):
    """A copy of a saved store, and what was known of it."""
    shutil.copytree(SAVED / request.param / "store", tmp_path / "store")
    command = Command(tmp_path / "home", {"DATAMON_STORE": str(tmp_path / "store")})
    return command, json.loads((SAVED / request.param / QUESTIONS).read_text())


def at_least(known, told):
    """Whether what is told has all that was known. A later version may tell more."""
    if isinstance(known, dict):
        return isinstance(told, dict) and all(name in told and at_least(known[name], told[name]) for name in known)
    if isinstance(known, list):
        return isinstance(told, list) and len(known) == len(told) and all(map(at_least, known, told))
    return known == told


def test_questions_have_the_answers_that_they_had(saved):
    command, known = saved
    for question in known["questions"]:
        assert at_least(question["told"], command.json(*question["ask"])), question["ask"]


def test_every_byte_can_be_read(saved, tmp_path):
    command, known = saved
    for name, bundle in known["bundles"].items():
        where, out = ("--repo", "weather", "--bundle", bundle), tmp_path / name
        command("bundle", "download", *where, "--destination", str(out))
        for file in command.json("bundle", "list", "files", *where):
            path = out / file["name"]
            if file["type"] == "link":
                assert os.readlink(path) == file["link"]
            elif file["type"] == "folder":
                assert not list(path.iterdir())
            else:
                assert blake3(path.read_bytes()).hexdigest() == file["hash"]
            assert path.lstat().st_mtime_ns == file["mtime"]
    store = command.settings().store
    objects = {str(path.relative_to(store)): path.read_bytes() for path in Path(store).rglob("*") if path.is_file()}
    listed = command.json("bundle", "list", "files", "--repo", "weather", "--bundle", known["bundles"]["next"])
    found = contents(objects, "weather", known["bundles"]["next"])
    assert {name.removesuffix(".") for name in found} == {file["name"] for file in listed}


def test_work_goes_on(saved, files, tmp_path):
    """A diamond that was open is taken up, and of what the store holds nothing is stored again."""
    command, known = saved
    [left] = [one for one in command.json("diamond", "list", "--repo", "weather") if one["tag"] == "open"]
    kept = ("--repo", "weather", "--bundle", known["bundles"]["next"])
    command("bundle", "download", *kept, "--destination", str(tmp_path / "again"))
    where = ("--repo", "weather", "--diamond", left["id"])
    command("up", "--detach")
    try:
        command("diamond", "recover", *where, "--server-lost")
        command("diamond", "add", *where, "--path", files("more", {"more": "more"}))
        command("diamond", "add", *where, "--path", str(tmp_path / "again"), "--split", "again", "--create")
        split = command.json("diamond", "split", "get", *where, "--split", "again")
        assert (split["files"], split["stored"]) == (7, 0)
        bundle = command("diamond", "commit", *where, "--message", "today", "--label", "latest")
        assert command.json("bundle", "get", "--repo", "weather", "--label", "latest")["id"] == bundle
        assert len(command.json("label", "get", "--repo", "weather", "--label", "latest", "--history")) == 3
    finally:
        command("down")
