"""How the cost of a commit grows with the number of files, and that of a diamond with the number of its splits.

    python -m bench.growth entries     commits of 10^4 to 10^7 files of 10 splits, and of 10 splits with the same names
    python -m bench.growth splits      10 to 2,000 splits of ten small files each, added, uploaded and committed
    python -m bench.growth tiny        3 splits of 10 files, from initialize to bundle, on a warm stack
    python -m bench.growth chart       what was measured, as docs/growth.png

Each writes what it found to bench/results.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path

from temporalio.client import WorkflowHandle

from bench import stack
from bench.load import Load, write_diamond
from bench.merge import commit_seconds, remove_diamond, warm_up
from starter.client import Datamon

HERE = Path(__file__).parent
RESULTS, CHART = HERE / "results", HERE.parent / "docs" / "growth.png"
ENTRIES = {10_000: 5, 100_000: 5, 1_000_000: 3, 10_000_000: 1}  # and how often
SPLITS = (10, 50, 100, 200, 500, 1000, 2000)
BARS = {"10 M / 1 M": 11, "MiB of a Python worker": 2048, "tiny seconds": 3}
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
                    print(one, flush=True)
                    found.append(one)
            seconds, peak = await committed(datamon, settings.store, Load(most, shape="same"))
            same = {"entries": most, "seconds": seconds, "python_worker_mib": peak}
            print("the same names in 10 splits:", same, flush=True)
    return {"mixed": found, "same names": same}


async def measure_splits(most):
    found = []
    for number in SPLITS:
        if number <= most:
            with stack.scratch() as folder, stack.running(folder) as settings:
                found.append(await many_splits(folder, settings, number))
            print(found[-1], flush=True)
    return found


def small_folders(folder, number, files=10):
    """As many folders, each with a few small files of its own."""
    for split in range(number):
        (folder / f"{split:04d}").mkdir(parents=True)
        for file in range(files):
            (folder / f"{split:04d}" / f"{split:04d}-{file}").write_text(f"{split} {file}")
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
    return {"worker": stack.now("starter.cli", "up"), "server": stack.now("start-dev")}


async def diamond_events(datamon, handle):
    runs = [run async for run in datamon.client.list_workflows(f"WorkflowId = '{handle.id}'")]
    return sum([await count_events(datamon.client.get_workflow_handle(run.id, run_id=run.run_id)) for run in runs])


async def count_events(handle: WorkflowHandle):
    return len((await handle.fetch_history()).events)


async def tiny(datamon, folder):
    """Seconds from initialize to bundle of 3 splits of 10 files."""
    paths = small_folders(folder, 3) if not folder.exists() else sorted(folder.iterdir())
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
            times = [await tiny(datamon, folder / "tiny") for _ in range(rounds + 1)]
    print({"first": times[0], "others": times[1:]})
    return {"first": times[0], "median": statistics.median(times[1:])}


def draw():
    """Both curves on one picture."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    entries = json.loads((RESULTS / "entries.json").read_text())
    splits = json.loads((RESULTS / "splits.json").read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    counts, seconds = zip(*((one["entries"], one["seconds"]) for one in entries["mixed"]), strict=True)
    left.loglog(counts, seconds, "o-", label="10 splits, mixed names, 1 % conflicts")
    same = entries["same names"]
    left.loglog([same["entries"]], [same["seconds"]], "s", label="10 splits, the same names in all")
    left.loglog(counts, [seconds[-1] * count / counts[-1] for count in counts], ":", color="grey", label="proportional")
    left.set(xlabel="files in the splits", ylabel="seconds to commit", title="Commit, by files")
    for count, second in zip(counts, seconds, strict=True):
        left.annotate(f"{second:.3g} s", (count, second), textcoords="offset points", xytext=(4, -12))
    numbers = [one["splits"] for one in splits]
    right.semilogx(numbers, [one["ms_a_split"] for one in splits], "o-", label="ms a split, upload and commit")
    right.semilogx(
        numbers, [one["diamond_events_a_split"] for one in splits], "s-", label="events of the diamond a split"
    )
    right.semilogx(numbers, [one["split_events"] for one in splits], "^-", label="events of a split")
    right.set(xlabel="splits of ten small files", title="A diamond, by splits", ylim=(0, None))
    right.set_xticks(numbers, [str(number) for number in numbers])
    right.minorticks_off()
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(CHART, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["entries", "splits", "tiny", "chart"])
    parser.add_argument("--most", type=int, default=None, help="stop at so many entries or splits")
    args = parser.parse_args()
    if args.what == "chart":
        draw()
        return
    measured = {
        "entries": lambda: measure_entries(args.most or max(ENTRIES)),
        "splits": lambda: measure_splits(args.most or max(SPLITS)),
        "tiny": lambda: measure_tiny(args.most or 9),
    }[args.what]()
    (RESULTS / f"{args.what}.json").write_text(json.dumps(asyncio.run(measured), indent=2) + "\n")


if __name__ == "__main__":
    main()
