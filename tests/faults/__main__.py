"""`make torture`: every fault again and again, with seeds that are printed, and an hour of work beside it.

    python -m tests.faults                                     an hour, as `make torture` does it
    python -m tests.faults farm --only zombie --seed 7 --runs 1   one failure, once more
    python -m tests.faults report                              write docs/internals/reliability.md from the last results

Each run is a line of JSON in the folder of results; a run that fails is printed with its seed, and the rest goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from itertools import product
from pathlib import Path

from tests.faults import disk
from tests.faults.report import grown, write_report
from tests.faults.scenarios import Scenario, cluster_scenarios, give_up, hits, nothing, one_run, scenarios
from tests.faults.stack import farm

OUTAGE_SECONDS = 60
CLUSTER_MINUTES = 6
DISK_RUNS = 20
PACE_SECONDS = 2  # between diamonds of the work of an hour, which is to take memory, not time
SAMPLE_SECONDS = 10


class Log:
    """Where runs are written down."""

    def __init__(self, path):
        self._path = path
        self.failed = 0

    def run(self, name, seed, seconds, verdict=None, refused=0, faults=0):
        line = {"fault": name, "seed": seed, "seconds": round(seconds, 1), "refused": refused, "faults": faults}
        if verdict is None:
            self.failed += 1
        else:
            line |= {"state": verdict.state, "files": verdict.files, "conflicts": verdict.conflicts}
        with self._path.open("a") as out:
            out.write(json.dumps(line) + "\n")
        told = f"{verdict.state}, {verdict.files} files" if verdict else "FAILED"
        print(f"seed {seed}: {name}: {told}, {seconds:.1f} s", flush=True)


async def one(built, datamon, scenario, seed, log):
    """One run, written down."""
    started, before = time.monotonic(), hits(built)
    try:
        verdict, refused = await one_run(built, datamon, scenario, seed)
    except Exception:
        traceback.print_exc()
        log.run(scenario.name, seed, time.monotonic() - started)
        raise
    log.run(scenario.name, seed, time.monotonic() - started, verdict, len(refused), hits(built) - before)


def run_farm(args, log, *, on_cluster=False):
    """Go through the faults until the time is over. After a failure it begins anew, on a new farm."""
    every = cluster_scenarios() if on_cluster else scenarios(OUTAGE_SECONDS)
    chosen = [scenario for scenario in every[args.skip :] + every[: args.skip] if args.only in scenario.name]
    until = time.monotonic() + 60 * args.minutes
    work = iter(product(range(args.seed, args.seed + args.runs), chosen))
    over = False
    while not over and time.monotonic() < until:
        folder = Path(tempfile.mkdtemp(prefix="datamon-torture-"))
        try:
            with farm(folder / "farm", on_cluster=on_cluster) as built:
                over = asyncio.run(_go_through(built, work, until, log))
        except Exception as error:  # noqa: BLE001 - it is written down, or did not even start
            log.failed = max(1, log.failed)
            print(f"{error!r}; logs are kept in {folder}", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(folder)


async def _go_through(built, work, until, log):
    async with await built.connect() as datamon:
        for seed, scenario in work:
            if time.monotonic() > until:
                return True
            await one(built, datamon, scenario, seed, log)
    return True


def run_disk(args, log):
    """Stores in a directory, again and again."""
    chosen = {what: scenario for what, scenario in disk.SCENARIOS.items() if args.only in scenario.name}
    until = time.monotonic() + 60 * args.minutes
    seeds = range(args.seed, args.seed + min(args.runs, DISK_RUNS))
    for seed, (what, scenario) in product(seeds, chosen.items()):
        started = time.monotonic()
        if started > until:
            return
        try:
            [(verdict, refused)] = disk.in_its_own_mounts(seed, what)
        except Exception:  # noqa: BLE001 - whatever it was, it is what we look for
            traceback.print_exc()
            log.run(scenario.name, seed, time.monotonic() - started)
        else:
            log.run(scenario.name, seed, time.monotonic() - started, verdict, refused)


def run_soak(args, log):
    """Work without faults, one diamond after another, and how much memory everything has meanwhile."""
    until = time.monotonic() + 60 * args.minutes
    kinds = [
        Scenario("nothing, diamond after diamond", nothing),
        Scenario("nothing, but a cancel at any time", give_up, canceled=True),
    ]
    with tempfile.TemporaryDirectory(prefix="datamon-soak-") as name, farm(Path(name) / "farm") as built:

        async def work():
            sampling = asyncio.ensure_future(_sample(built, Path(args.out) / "memory.jsonl"))
            chance, seed = random.Random(args.seed), args.seed
            async with await built.connect() as datamon:
                while time.monotonic() < until:
                    with suppress(Exception):  # it is written down; the hour goes on
                        await one(built, datamon, chance.choices(kinds, [4, 1])[0], seed, log)
                    seed += 1
                    await asyncio.sleep(PACE_SECONDS)
            sampling.cancel()

        asyncio.run(work())


async def _sample(built, path):
    started = time.monotonic()
    while True:
        told = {"minute": round((time.monotonic() - started) / 60, 2), "temporal": _rss(built.temporal.pid)}
        for number, worker in enumerate(built.workers, 1):
            family = worker.family()
            told[f"worker {number}"] = _rss(family.pop("worker"))
            told[f"jvm {number}"] = _rss(family.pop("jvm", 0))
            told[f"tasks {number}"] = sum(map(_rss, family.values()))
        with path.open("a") as out:
            out.write(json.dumps(told) + "\n")
        await asyncio.sleep(SAMPLE_SECONDS)


def _rss(pid):
    """MiB that a process has in memory."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:")), 0)


def run_all(args):
    """Several farms, then a Spark cluster, and beside them disks and the work of an hour; then the report."""
    out = Path(args.out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    print(f"seed {args.seed}, for {args.minutes:g} minutes; results are in {out}", flush=True)
    main = max(1.0, args.minutes - CLUSTER_MINUTES)
    soak = _started("soak", args.seed, args.minutes, out)
    apart = len(scenarios(OUTAGE_SECONDS)) // args.farms  # so that a short run comes to all faults too
    farms = [
        _started("farm", args.seed + 1000 * number, main, out, "--skip", str(apart * number))
        for number in range(args.farms)
    ]
    farms.append(_started("disk", args.seed, main, out))
    codes = [process.wait() for process in farms]
    codes.append(_started("cluster", args.seed, min(CLUSTER_MINUTES, args.minutes), out).wait())
    codes.append(soak.wait())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    (out / "run.json").write_text(json.dumps({"seed": args.seed, "minutes": args.minutes, "commit": commit.strip()}))
    leaking = grown(write_report(out))
    if any(codes):
        sys.exit("something failed: see FAILED above, with its seed")
    if leaking:
        sys.exit(f"memory has grown: {', '.join(leaking)}")


def _started(what, seed, minutes, out, *more):
    words = [sys.executable, "-m", "tests.faults", what, "--seed", str(seed), "--minutes", str(minutes), *more]
    return subprocess.Popen([*words, "--out", str(out)], env=os.environ | {"PYTHONUNBUFFERED": "1"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="all", choices=["all", "farm", "cluster", "disk", "soak", "report"])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--runs", type=int, default=10**4, help="how many seeds, at most")
    parser.add_argument("--farms", type=int, default=2, help="how many farms beside each other")
    parser.add_argument("--only", default="", help="words that the name of a fault has")
    parser.add_argument("--skip", type=int, default=0, help="how many faults to begin after")
    parser.add_argument("--out", default="build/torture", help="the folder of results")
    args = parser.parse_args()
    if args.what == "all":
        run_all(args)
        return
    Path(args.out).mkdir(parents=True, exist_ok=True)
    if args.what == "report":
        write_report(Path(args.out))
        return
    log = Log(Path(args.out) / f"{args.what}-{args.seed}.jsonl")
    if args.what in ("farm", "cluster"):
        run_farm(args, log, on_cluster=args.what == "cluster")
    elif args.what == "disk":
        run_disk(args, log)
    else:
        run_soak(args, log)
    sys.exit(1 if log.failed else 0)


if __name__ == "__main__":
    main()
