"""Downloads that are killed again and again, over a line that fails: what stands under a name in the end is whole."""

from __future__ import annotations

import asyncio
import random
import shutil

from tests.faults.checker import Wrong, contents
from tests.faults.s3 import Hold

KILLS = 4
SHARE = 0.05  # of requests that fail
TRIES = 10  # of the download that nobody kills; a line that is bad enough makes it end with a sentence


async def killed_downloads(life, chance: random.Random):
    """Kill -9 of a download right after an answer of the store has come, and the same command once more."""
    await life.live()
    out = life.farm.folder / "out"
    line, killed = life.farm.workers[0].s3, 0
    with line.storm(chance.random(), SHARE):
        for _ in range(KILLS):
            hold = line.start_hold(Hold("GET", "/blob/(packs|chunks)/", done=True, skip=chance.randrange(5)))
            downloading = _started(life, out)
            await asyncio.to_thread(_until_held_or_over, hold, downloading)
            line.end_hold(hold, carry_on=True)
            await asyncio.sleep(chance.choice([0, 0.005, 0.02, 0.1, 0.3]))
            downloading.kill()
            await asyncio.to_thread(downloading.communicate)
            if _is_whole(life, out):  # the kill came too late
                break
            killed += 1
        await _fetch(life, out)
    if not killed:
        raise Wrong("no download was killed, so nothing was shown")
    store = await asyncio.to_thread(life.farm.read)
    wanted = contents(store, life.repo, life.answered)
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    found.pop(f".datamon/{life.answered}.yaml", None)
    if found != wanted:
        differ = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        raise Wrong(f"downloaded, but not as it is in the bundle, or the other way: {differ[:6]}")
    shutil.rmtree(out)


async def _fetch(life, out):
    """The same command once more, until it has come to its end."""
    for _ in range(TRIES):
        if _is_whole(life, out):
            return
        downloading = _started(life, out)
        _, told = await asyncio.to_thread(downloading.communicate)
        if downloading.returncode != 0 and (not told.startswith("datamon: ") or "Traceback" in told):
            raise Wrong(f"a download ended with {told!r}")
    if not _is_whole(life, out):
        raise Wrong(f"the download did not end well: {told}")


def _is_whole(life, out):
    return (out / ".datamon" / f"{life.answered}.yaml").exists() and not (out / ".datamon" / "partial").exists()


def _started(life, out):
    over = life.farm.client_over(life.farm.workers[0])
    return over.popen("bundle", "download", "--repo", life.repo, "--bundle", life.answered, "--destination", str(out))


def _until_held_or_over(hold, process):
    while not hold.reached.wait(0.02) and process.poll() is None:
        pass
