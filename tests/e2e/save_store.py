"""Save a small store that has everything a store can have, and what its readers must be told of it.

    python -m tests.e2e.save_store 0.2.0     into saved_stores/0.2.0/, which must not be there yet

A saved store stays as it is for ever: every later version must read it (`test_saved_stores`). When a format changes,
the next version saves a store of its own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conftest import Command

SAVED = Path(__file__).parent / "saved_stores"
QUESTIONS = "questions.json"
MIB = 1 << 20
ADA, GRACE = "Ada <ada@example.org>", "Grace <grace@example.org>"


def main(version):
    target = SAVED / version
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = Command(folder / "home", {"DATAMON_STORE": str(folder / "store"), "DATAMON_HOST": "host"})
        command("up", "--detach")
        try:
            bundles = make(command, folder)
        finally:
            command("down")
        for left in (folder / "store").glob("*/.datamon-store"):
            shutil.rmtree(left)
        shutil.copytree(folder / "store", target / "store")
        asked = questions(bundles)
        told = [{"ask": ask, "told": json.loads(command(*ask, "--format", "json"))} for ask in asked]
        (target / QUESTIONS).write_text(json.dumps({"bundles": bundles, "questions": told}, indent=1) + "\n")


def make(command, folder):
    """Everything. Gives the bundles that can be read, by what they are."""
    sources = {name: folder / name for name in ("one", "two", "next", "bad", "noise")}
    write_sources(sources)
    for repo in ("weather", "gone"):
        command("repo", "create", "--repo", repo, "--description", f"about {repo}")
    kept = diamond(command, sources, "--with-conflicts", "--label", "latest", "--meta", "run=7")
    checkpoints = diamond(command, sources, "--with-checkpoints", "--order", "added")
    options = ("--links", "keep", "--empty-folders", "--label", "latest")
    following = upload(command, sources["next"], *options)
    noise = upload(command, sources["noise"])
    skipping = upload(command, sources["bad"], "--skip-on-error", "--exclude", "*.tmp")
    deleted = upload(command, sources["one"])
    command("bundle", "delete", "--repo", "weather", "--bundle", deleted, "--reason", "a rehearsal", "--yes")
    command("bundle", "upload", "--repo", "gone", "--path", str(sources["next"]), "--message", "m")
    command("repo", "delete", "--repo", "gone", "--reason", "it was a rehearsal", "--yes")
    canceled = command("diamond", "initialize", "--repo", "weather", "--tag", "canceled")
    command("diamond", "cancel", "--repo", "weather", "--diamond", canceled, "--reason", "a mistake")
    command("diamond", "initialize", "--repo", "weather", "--tag", "open")
    return {"kept": kept, "checkpoints": checkpoints, "next": following, "noise": noise, "skipping": skipping}


def write_sources(sources):
    """Small files that compress and some that do not, large ones, one so large that several tasks share it."""
    rng = random.Random(1)
    block = rng.randbytes(32 << 10)
    for name, folder in sources.items():
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "noise").write_bytes(rng.randbytes(3000))
        if name == "noise":
            continue
        (folder / "empty").touch()
        (folder / "clash.txt").write_text(f"written by {name}\n")
        (folder / "data" / "text.csv").write_text("".join(f"{number},{number % 7}\n" for number in range(2000)))
        (folder / "data" / "né è.txt").write_text("a name with accents\n")
        (folder / "data" / "large").write_bytes(name.encode() + block * (3 * MIB // len(block)))
    with (sources["one"] / "huge").open("wb") as file:
        file.truncate(513 * MIB)
    (sources["two"] / "x").write_text("a file where another split has a folder\n")
    (sources["one"] / "x").mkdir()
    (sources["one"] / "x" / "y").write_text("in a folder\n")
    (sources["next"] / "newest").symlink_to("data/text.csv")
    (sources["next"] / "nothing").mkdir(mode=0o750)
    os.mkfifo(sources["bad"] / "pipe")
    (sources["bad"] / "half.tmp").touch()
    for folder in sources.values():
        for path in folder.rglob("*"):
            os.utime(path, (1_790_000_000, 1_790_000_000), follow_symlinks=False)


def diamond(command, sources, *options):
    opened = command("diamond", "initialize", "--repo", "weather", "--tag", "nightly")
    where = ("--repo", "weather", "--diamond", opened)
    for name, contributor in (("one", ADA), ("two", GRACE)):
        by = Command(command.home, command.more | {"DATAMON_CONTRIBUTOR": contributor})
        by("diamond", "add", *where, "--path", str(sources[name]), "--split-tag", name)
    return command("diamond", "commit", *where, "--message", "of two", *options)


def upload(command, path, *options):
    where = ("--repo", "weather", "--path", str(path))
    return command("bundle", "upload", *where, "--message", f"of {path.name}", *options)


def questions(bundles):
    """What can be asked of the store alone."""
    kept, following = bundles["kept"], bundles["next"]
    of = ("--repo", "weather")
    yield ("repo", "list")
    yield ("bundle", "list", *of)
    yield ("bundle", "list", *of, "--meta", "run=7")
    yield ("bundle", "diff", *of, kept, following)
    yield ("bundle", "find", *of, "*.txt")
    yield ("label", "list", *of)
    yield ("label", "get", *of, "--label", "latest", "--history")
    yield ("diamond", "list", *of)
    for bundle in bundles.values():
        yield ("bundle", "get", *of, "--bundle", bundle)
        yield ("bundle", "list", "files", *of, "--bundle", bundle)


if __name__ == "__main__":
    main(sys.argv[1])
