"""Many at once: how throughput and latency go as more and more work comes, past the point where it cannot get faster.

    python -m bench.concurrency knee        1 to 128 clients at once, each with one small diamond after another
    python -m bench.concurrency adds        200 processes that each add a split to one diamond, at the same time
    python -m bench.concurrency diamonds    50 diamonds of three splits, all at the same time
    python -m bench.concurrency chart       what was measured, as docs/internals/concurrency.png

Past the knee everything takes longer, and nothing fails or is lost: that is counted, and a failure ends the benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path

from bench import stack
from bench.growth import small_folders
from datamon.bundles.catalog import list_bundles
from datamon.starter.client import Datamon

CHART = Path(__file__).parent.parent / "docs" / "internals" / "concurrency.png"
LEVELS = (1, 2, 4, 8, 16, 32, 64, 128)
LEVEL_SECONDS = 15
ADDS = 200
DIAMONDS = 50
FILES = 10


async def life(datamon, path):
    """A diamond with one split, from initialize to bundle. Gives its seconds."""
    with stack.clock() as took:
        diamond = await datamon.diamonds.initialize("bench")
        await (await diamond.add(path)).result()
        answer = await diamond.commit("concurrency")
    assert answer.files == FILES
    return took[0]


async def at_level(datamon, paths, level):
    """So many clients, each with one diamond after another, until the time is over."""
    until, times = time.monotonic() + LEVEL_SECONDS, []

    async def client(number):
        while time.monotonic() < until:
            times.append(await life(datamon, paths[number % len(paths)]))

    with stack.clock() as took:
        await asyncio.gather(*(client(number) for number in range(level)))
    times.sort()
    return {
        "clients": level,
        "diamonds": len(times),
        "diamonds a second": round(len(times) / took[0], 2),
        "median seconds": round(statistics.median(times), 2),
        "95 % within": round(times[int(0.95 * (len(times) - 1))], 2),
        "longest": round(times[-1], 2),
    }


async def measure_knee():
    found = []
    with stack.scratch() as folder, stack.running(folder) as settings:
        paths = small_folders(folder / "source", 8, FILES)
        async with await Datamon.connect(settings) as datamon:
            await datamon.repos.create("bench")
            await life(datamon, paths[0])
            for level in LEVELS:
                found.append(await at_level(datamon, paths, level))
                print(found[-1], file=sys.stderr, flush=True)
            made = len(list(list_bundles(datamon.context, "bench")))
            assert made == 1 + sum(one["diamonds"] for one in found), "every commit that was answered made its bundle"
    return found


async def measure_adds():
    """As 200 machines would do it: each with a process of its own, all at the same moment."""
    with stack.scratch() as folder, stack.running(folder) as settings:
        paths = small_folders(folder / "source", ADDS, FILES)
        async with await Datamon.connect(settings) as datamon:
            await datamon.repos.create("bench")
            diamond = await datamon.diamonds.initialize("bench")
            environment = os.environ | {"DATAMON_HOME": str(settings.home), "DATAMON_STORE": settings.store}
            words = (stack.BIN / "datamon", "diamond", "add", "--repo", "bench", "--diamond", diamond.id, "--path")

            async def add(path):
                with stack.clock() as took:
                    quiet = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
                    process = await asyncio.create_subprocess_exec(*words, str(path), env=environment, **quiet)
                    _, err = await process.communicate()
                assert process.returncode == 0, err.decode()
                return took[0]

            with stack.clock() as took:
                times = sorted(await asyncio.gather(*(add(path) for path in paths)))
            with stack.clock() as committing:
                answer = await diamond.commit("concurrency", splits=ADDS)
            assert answer.files == ADDS * FILES
    return {
        "processes": ADDS,
        "seconds": round(took[0], 1),
        "median seconds": round(statistics.median(times), 1),
        "longest": round(times[-1], 1),
        "seconds to commit": round(committing[0], 2),
    }


async def measure_diamonds():
    with stack.scratch() as folder, stack.running(folder) as settings:
        paths = small_folders(folder / "source", 3, FILES)
        async with await Datamon.connect(settings) as datamon:
            await datamon.repos.create("bench")
            await life(datamon, paths[0])

            async def one():
                with stack.clock() as took:
                    diamond = await datamon.diamonds.initialize("bench")
                    splits = await asyncio.gather(*(diamond.add(path) for path in paths))
                    await asyncio.gather(*(split.result() for split in splits))
                    answer = await diamond.commit("concurrency")
                assert answer.files == 3 * FILES
                return took[0]

            with stack.clock() as took:
                times = sorted(await asyncio.gather(*(one() for _ in range(DIAMONDS))))
    return {
        "diamonds": DIAMONDS,
        "seconds": round(took[0], 1),
        "median seconds": round(statistics.median(times), 1),
        "longest": round(times[-1], 1),
    }


def chart():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = json.loads((stack.RESULTS / "concurrency.json").read_text())["knee"]
    clients = [one["clients"] for one in found]
    figure, (rate, wait) = plt.subplots(1, 2, figsize=(9, 3.5))
    rate.plot(clients, [one["diamonds a second"] for one in found], marker="o")
    rate.set_ylabel("diamonds a second")
    for name in ("median seconds", "95 % within", "longest"):
        wait.plot(clients, [one[name] for one in found], marker="o", label=name)
    wait.set_ylabel("seconds a diamond")
    wait.legend()
    for axes in (rate, wait):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("clients at once")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(CHART, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["knee", "adds", "diamonds", "chart"])
    what = parser.parse_args().what
    if what == "chart":
        chart()
        return
    measure = {"knee": measure_knee, "adds": measure_adds, "diamonds": measure_diamonds}[what]
    path = stack.RESULTS / "concurrency.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    result = before | {what: asyncio.run(measure())}
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result[what], indent=2))


if __name__ == "__main__":
    main()
