"""How the cost of a commit grows with the number of files, and that of a diamond with the number of its splits.

    python -m bench.growth entries     commits of 10^4 to 10^7 files of 10 splits, and of 10 splits with the same names
    python -m bench.growth splits      10 to 2,000 splits of ten small files each, added, uploaded and committed
    python -m bench.growth tiny        3 splits of 10 files, from initialize to bundle, on a warm stack
    python -m bench.growth chart       what was measured, as docs/internals/growth.png

Each writes what it found to bench/results.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path

from temporalio.client import WorkflowHandle

from bench import stack
from bench.load import Load, write_diamond
from bench.merge import commit_seconds, remove_diamond, warm_up
from datamon.starter.client import Datamon

HERE = Path(__file__).parent
CHART = HERE.parent / "docs" / "internals" / "growth.png"
ENTRIES = {10_000: 5, 100_000: 5, 1_000_000: 3, 10_000_000: 1}  # and how often
SPLITS = (10, 50, 100, 200, 500, 1000, 2000)
PYTHON_WORKER = ("pyspark.daemon",)


async def committed(datamon, store, load):
    """Seconds of the commit of a load, and the most memory of a Python worker so far."""
    diamond, _ = write_diamond(load, store)
    seconds, answer = await commit_seconds(datamon, diamond)
    remove_diamond(store, diamond, answer.bundle)
    return round(seconds, 3), stack.peak(*PYTHON_WORKER)


async def measure_entries(most):
    found = []
    with stack.scratch() as folder, stack.running(folder) as settings:
        async with await Datamon.connect(settings) as datamon:
            await warm_up(datamon, settings.store)
            for entries, rounds in ENTRIES.items():
                if entries <= most:
                    runs = [
                        await committed(datamon, settings.store, Load(entries, seed=seed)) for seed in range(rounds)
                    ]
                    times, peaks = zip(*runs, strict=True)
                    one = {"entries": entries, "seconds": statistics.median(times), "python_worker_mib": max(peaks)}
                    _tell(one)
                    found.append(one)
            seconds, peak = await committed(datamon, settings.store, Load(most, shape="same"))
            same = {"entries": most, "seconds": seconds, "python_worker_mib": peak}
            _tell({"the same names in 10 splits": same})
    return {"mixed": found, "same names": same}


async def measure_splits(most):
    found = []
    for number in SPLITS:
        if number <= most:
            with stack.scratch() as folder, stack.running(folder) as settings:
                found.append(await many_splits(folder, settings, number))
            _tell(found[-1])
    return found


def small_folders(folder, number, files=10, words=""):
    """As many folders, each with a few small files of its own."""
    for split in range(number):
        (folder / f"{split:04d}").mkdir(parents=True)
        for file in range(files):
            (folder / f"{split:04d}" / f"{split:04d}-{file}").write_text(f"{words} {split} {file}")
    return sorted(folder.iterdir())


async def many_splits(folder, settings, number):
    """The cost of a diamond with so many splits: all of it, and for each split."""
    paths = small_folders(folder / "source", number)
    async with await Datamon.connect(settings) as datamon:
        await datamon.repos.create("bench")
        await tiny(datamon, folder / "tiny")
        diamond = await datamon.diamonds.initialize("bench")
        before = memory()
        with stack.clock() as adding:
            splits = await diamond.add_all(paths)
            await asyncio.gather(*(split.result() for split in splits))
        with stack.clock() as committing:
            answer = await diamond.commit("many")
        assert answer.files == 10 * number
        after, events = memory(), await diamond_events(datamon, diamond.handle)
        split_events = await count_events(splits[0].handle)
    return {
        "splits": number,
        "seconds_to_upload": round(adding[0], 2),
        "seconds_to_commit": round(committing[0], 2),
        "ms_a_split": round(1000 * (adding[0] + committing[0]) / number, 1),
        "diamond_events_a_split": round(events / number, 1),
        "split_events": split_events,
        "kib_of_the_worker_a_split": round(1024 * (after["worker"] - before["worker"]) / number, 1),
        "kib_of_the_server_a_split": round(1024 * (after["server"] - before["server"]) / number, 1),
    }


def memory():
    return {"worker": stack.now("datamon.starter.cli", "up"), "server": stack.now("start-dev")}


async def diamond_events(datamon, handle):
    runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{handle.id}'")]
    return sum([await count_events(datamon.client.get_workflow_handle(run.id, run_id=run.run_id)) for run in runs])


async def count_events(handle: WorkflowHandle):
    return len((await handle.fetch_history()).events)


async def tiny(datamon, folder):
    """Seconds from initialize to bundle of 3 splits of 10 files."""
    paths = small_folders(folder, 3, words=folder.name)
    with stack.clock() as took:
        diamond = await datamon.diamonds.initialize("bench")
        splits = await asyncio.gather(*(diamond.add(path) for path in paths))
        await asyncio.gather(*(split.result() for split in splits))
        await diamond.commit("tiny")
    return round(took[0], 3)


async def measure_tiny(rounds):
    with stack.scratch() as folder, stack.running(folder) as settings:
        async with await Datamon.connect(settings) as datamon:
            await datamon.repos.create("bench")
            times = [await tiny(datamon, folder / f"tiny-{number}") for number in range(rounds + 1)]
    _tell({"first": times[0], "others": times[1:]})
    return {"first": times[0], "median": statistics.median(times[1:])}


def draw():
    """All curves on one picture."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    entries = json.loads((stack.RESULTS / "entries.json").read_text())
    splits = json.loads((stack.RESULTS / "splits.json").read_text())["splits"]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    counts, seconds = zip(*((one["entries"], one["seconds"]) for one in entries["mixed"]), strict=True)
    left.loglog(counts, seconds, "o-", label="10 splits, mixed names, 1 % conflicts")
    same = entries["same names"]
    left.loglog([same["entries"]], [same["seconds"]], "s", label="10 splits, the same names in all")
    left.loglog(counts, [seconds[-1] * count / counts[-1] for count in counts], ":", color="grey", label="proportional")
    left.set(xlabel="files in the splits", ylabel="seconds", title="Commit, by files")
    for count, second in zip(counts, seconds, strict=True):
        left.annotate(f"{second:.3g} s", (count, second), textcoords="offset points", xytext=(4, -12))
    numbers = [one["splits"] for one in splits]

    def curve(axes, mark, field, label):
        axes.semilogx(numbers, [one[field] for one in splits], mark, label=label)

    curve(middle, "o-", "ms_a_split", "ms, upload and commit")
    curve(middle, "s-", "diamond_events_a_split", "events of the diamond")
    curve(middle, "^-", "split_events", "events of the split")
    middle.set(xlabel="splits of ten small files", ylabel="ms, events", title="What a split costs, by splits")
    curve(right, "o-", "kib_of_the_worker_a_split", "worker")
    curve(right, "s-", "kib_of_the_server_a_split", "Temporal server")
    right.set(xlabel="splits of ten small files", ylabel="KiB", title="What a split adds to memory, by splits")
    for axes in (middle, right):
        axes.set(ylim=(0, None))
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.minorticks_off()
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(CHART, dpi=110)


def _tell(found):
    print(found, file=sys.stderr, flush=True)


def entries_bars(found):
    """Ten times as many files take at most eleven times as long, and no Python worker has 2 GiB."""
    seconds = {one["entries"]: one["seconds"] for one in found["mixed"]}
    peak = max(one["python_worker_mib"] for one in [*found["mixed"], found["same names"]])
    growth = [("10 M / 1 M", round(seconds[10**7] / seconds[10**6], 2), 11)] if 10**7 in seconds else []
    return [*growth, ("MiB of a Python worker", peak, 2048)]


def splits_bars(found):
    """From 100 splits on, time and events of a split are flat, give or take a quarter; its memory does not grow."""
    many = [one for one in found["splits"] if one["splits"] >= 100]
    flat, growing = ("ms_a_split", "diamond_events_a_split", "split_events"), ("worker", "server")
    return [
        *((f"{field}, the most / the least", _spread([one[field] for one in many]), 1.25) for field in flat),
        *((f"KiB of the {what}, last / first", _growth(many, f"kib_of_the_{what}_a_split"), 1) for what in growing),
    ]


def _spread(values):
    return round(max(values) / min(values), 2)


def _growth(many, field):
    return round(many[-1][field] / many[0][field], 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["entries", "splits", "tiny", "chart"])
    parser.add_argument("--most", type=int, default=None, help="stop at so many entries, splits or rounds")
    args = parser.parse_args()
    match args.what:
        case "chart":
            draw()
        case "entries":
            found = asyncio.run(measure_entries(args.most or max(ENTRIES)))
            stack.save("entries", found, entries_bars(found))
        case "splits":
            found = {"splits": asyncio.run(measure_splits(args.most or max(SPLITS)))}
            stack.save("splits", found, splits_bars(found))
        case "tiny":
            found = asyncio.run(measure_tiny(args.most or 9))
            stack.save("tiny", found, [("seconds", found["median"], 3)])


if __name__ == "__main__":
    main()
