"""A store in a directory: its disk runs full, its worker is killed. All that has a process and a mount of its own.

python -m tests.faults.disk SEED [full] [full-in-commit] [killed]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.faults.checker import Verdict, Wrong
from tests.faults.scenarios import Scenario, one_run
from tests.faults.stack import cottage
from tests.faults.work import PATIENCE

DISK = 256 << 20
WHILE_ADDED = (  # a file of the store, or a temporary one, whose being there shows the moment
    "blob/.datamon-store/*",
    "blob/chunks/*/*",
    "vmetadata/diamonds/*/*/splits/*/bundle-files-*",
    "vmetadata/diamonds/*/*/splits/*/split.yaml",
)
WHILE_COMMITTED = (
    "metadata/lists/*/*",
    "metadata/bundles/*/*/bundle.yaml",
    "vmetadata/labels/*/*/label.yaml",
)


async def full_disk(life, chance: random.Random):
    """The disk runs full in the middle of uploads. Nothing ends as done that is not; with room, they go on."""
    life.farm.fill(leave=chance.randrange(256 << 10, 3 << 20))
    adding = asyncio.ensure_future(life.add())
    await _told_why(life.diamond.split(split).handle for split in life.splits)
    if chance.random() < 0.3:
        await life.cancel()
    else:
        life.farm.make_room()
        await adding
        await life.commit()
    await adding


async def full_in_commit(life, chance: random.Random):
    """The disk is full when the commit comes, at once or after a list or two. It goes on when there is room."""
    await life.add()
    life.farm.fill(leave=4096 * chance.randrange(3))
    committing = asyncio.ensure_future(life.commit())
    await _told_why([life.diamond.handle])
    life.farm.make_room()
    await committing


async def _told_why(handles):
    """Wait until a workflow says that there is no space left: it is what people see of an attempt in the Web UI."""
    handles, deadline = list(handles), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for handle in handles:
            if "no space left" in await _last_failure(handle):
                return
        await asyncio.sleep(0.1)
    raise Wrong("nobody was told that the disk is full")


async def _last_failure(handle):
    try:
        told = await handle.describe()
    except Exception:  # noqa: BLE001 - it is not started yet
        return ""
    return " ".join(pending.last_failure.message for pending in told.raw_description.pending_activities)


async def killed(life, chance: random.Random):
    """Kill -9 of the worker in the middle of uploads, perhaps of a write, and once more in the commit."""
    [worker] = life.farm.workers
    for work, moments in ((life.add, WHILE_ADDED), (life.commit, WHILE_COMMITTED)):
        living = asyncio.ensure_future(work())
        await asyncio.to_thread(_appears, life.farm.disk / "store", chance.choice(moments), living.done)
        await asyncio.to_thread(worker.kill, whole=chance.random() < 0.5)
        await asyncio.to_thread(worker.start)
        await living
    await life.farm.quiet(worker)
    life.farm.a_day_later()


def _appears(store, pattern, is_over):
    """Look without a pause until there is such a file, or nothing comes any more."""
    over = False
    while next(store.glob(pattern), None) is None and not over:
        over = is_over()


SCENARIOS = {
    "full": Scenario(
        "the disk of the store is full, until somebody makes room or cancels",
        full_disk,
        remote=False,
        large=True,
        canceled=None,
    ),
    "full-in-commit": Scenario(
        "the disk of the store is full when the commit comes, until somebody makes room",
        full_in_commit,
        remote=False,
        large=True,
    ),
    "killed": Scenario(
        "kill -9 of the worker of a store in a directory, in uploads and in the commit",
        killed,
        remote=False,
        large=True,
        label=True,
    ),
}


async def _run(folder, seed, chosen):
    with cottage(folder, DISK) as built:
        async with await built.connect() as datamon:
            for what in chosen:
                built.make_room()
                verdict, refused = await one_run(built, datamon, SCENARIOS[what], seed)
                print(json.dumps([asdict(verdict), len(refused)]), flush=True)


def in_its_own_mounts(seed, *chosen) -> list[tuple[Verdict, int]]:
    """A run of each, with a disk that only they have. Gives the verdicts, and how many refusals there were."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    command = ["unshare", *flags, sys.executable, "-m", "tests.faults.disk", str(seed), *chosen]
    patience = 3 * PATIENCE * len(chosen)
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    if done.returncode != 0:
        raise Wrong(done.stderr)
    answers = map(json.loads, done.stdout.splitlines())
    return [(Verdict(**verdict), refused) for verdict, refused in answers]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="datamon-disk-", ignore_cleanup_errors=True) as name:
        asyncio.run(_run(Path(name), int(sys.argv[1]), sys.argv[2:]))
