"""`make torture`: every fault again and again, with seeds that are printed.

python -m tests.faults --minutes 60                    as `make torture` does it
python -m tests.faults --only zombie --seed 7 --runs 1    one failure, once more
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults.scenarios import one_run, scenarios
from tests.faults.stack import farm


async def torture(built, chosen, seeds, until):
    """Runs until the time is over; gives what failed."""
    failures = []
    async with await built.connect() as datamon:
        for seed in seeds:
            if time.monotonic() > until:
                break
            for scenario in chosen:
                if time.monotonic() > until:
                    break
                started = time.monotonic()
                try:
                    verdict, refused = await one_run(built, datamon, scenario, seed)
                except Exception:  # noqa: BLE001
                    failures.append((scenario.name, seed))
                    print(f"FAILED seed {seed}: {scenario.name}", file=sys.stderr, flush=True)
                    traceback.print_exc()
                    return failures
                told = f"{verdict.state}, {verdict.files} files, {verdict.conflicts} conflicts, {len(refused)} refusals"
                print(f"seed {seed}: {scenario.name}: {told}, {time.monotonic() - started:.1f} s", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--runs", type=int, default=10**6)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="datamon-torture-"))
    chosen = [one for one in scenarios(10) if args.only in one.name]
    until = time.monotonic() + 60 * args.minutes
    with farm(folder) as built:
        failures = asyncio.run(torture(built, chosen, range(args.seed, args.seed + args.runs), until))
    if failures:
        sys.exit(f"failed; logs are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
