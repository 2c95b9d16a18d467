"""Today's code beside that of another checkout: both run at the same time, and take turns.

    make against BEFORE=COMMIT
    python -m bench.against CHECKOUT --only commit --rounds 20

On a machine that is shared, the same program takes half as long again from one minute to the next. So each round does
the same once on either side, one right after the other, and what counts is the median of the ratios of all rounds.
Prints a line for each measurement, and ends with 1 if a ratio is above the bar.

    commit    of a million files through Temporal, as `bench.merge` has it; in three shapes, see `bench.load`
    tiny      from initialize to the bundle of 3 splits of 10 files
    splits    a hundred splits at once, and their commit
    questions to a bundle of a million files, as `bench.listing` asks them, where both can; each in a process of its own
    content   many small files, and a few large ones, stored and fetched by the command, as `bench.content` does it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent.parent
BAR = 1.05
WARM_UP = 2
ENTRIES = 1_000_000
ROUNDS = {
    "commit mixed": 10,
    "commit apart": 10,
    "commit same": 6,
    "tiny": 10,
    "splits": 5,
    "questions": 5,
    "content small": 4,
    "content large": 3,
}


class Side:
    """One checkout, measuring in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        command = [checkout / ".venv" / "bin" / "python", __file__, "--side", checkout]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=checkout, env=environment, stdin=pipe, stdout=pipe, text=True)

    def ask(self, words: object) -> dict[str, float]:
        """Have it do something, and wait for the answer."""
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "a side has ended; what it says is above"
        return json.loads(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


async def serve() -> None:  # noqa: C901 - one branch for each measurement
    """Be a side: one line comes in for each step, and one goes out. Everything imported is the checkout's own."""
    from bench import listing
    from bench.content import TREES, timed
    from bench.content import Datamon as Command
    from bench.growth import small_folders, tiny
    from bench.load import Load, write_diamond
    from bench.merge import Datamon, commit_seconds, remove_diamond
    from bench.stack import clock, running, scratch
    from tests.servers import s3_server

    async with AsyncExitStack() as parts:
        folder = parts.enter_context(scratch())
        settings = parts.enter_context(running(folder))
        datamon = await parts.enter_async_context(await Datamon.connect(settings))
        await datamon.repos.create("bench")
        command = made = None
        for line in sys.stdin:
            what, turn = json.loads(line)
            here = folder / f"{what}-{turn}"
            if what.startswith("commit"):
                load = Load(ENTRIES, seed=turn, shape=what.split()[1])
                diamond, _ = write_diamond(load, settings.store)
            elif what == "questions":
                made = made or await listing.bundles(ENTRIES, settings)
            elif what.startswith("content"):
                if command is None:
                    server = parts.enter_context(s3_server(Path(parts.enter_context(TemporaryDirectory()))))
                    command = Command(server, folder / "content")
                    parts.callback(command.close)
                TREES[what.split()[1]](here, random.Random(turn))
            print("{}", flush=True)
            sys.stdin.readline()
            if what.startswith("commit"):
                seconds, answer = await commit_seconds(datamon, diamond)
                remove_diamond(settings.store, diamond, answer.bundle)
                took = {what: seconds}
            elif what == "tiny":
                took = {what: await tiny(datamon, here)}
            elif what == "splits":
                paths = small_folders(here, 100, words=here.name)
                with clock() as seconds:
                    diamond = await datamon.diamonds.initialize("bench")
                    splits = await diamond.add_all(paths)
                    await asyncio.gather(*(split.result() for split in splits))
                    await diamond.commit("splits")
                took = {what: seconds[0]}
            elif what == "questions":
                asked = listing.questions(ENTRIES).items() if hasattr(listing, "questions") else ()
                took = {step: listing.ask(settings.store, made, one)["seconds"] for step, one in asked}
            else:
                took, tree = {}, what.split()[1]
                for step in ("store", "store again") if tree == "small" else ("store",):
                    command.prepare(here, here.name.replace(" ", "-"))
                    took[f"{step}, {tree}"] = timed(command.store, here, here.name)
                took[f"fetch, {tree}"] = timed(command.fetch, here.name, here.with_name("fetched"))
                shutil.rmtree(here.with_name("fetched"))
            shutil.rmtree(here, ignore_errors=True)
            print(json.dumps(took), flush=True)


def measure(what: str, rounds: int, ours: Side, theirs: Side) -> dict[str, list[tuple[float, float]]]:
    """Seconds by what was measured: pairs of ours and theirs."""
    found: dict[str, list[tuple[float, float]]] = {}
    for turn in range(WARM_UP + rounds):
        took = {}
        for side in (ours, theirs):
            side.ask([what, turn])
        for side in (ours, theirs) if turn % 2 else (theirs, ours):
            took[side] = side.ask("go")
        for step in took[ours] if turn >= WARM_UP else ():
            if step in took[theirs]:
                found.setdefault(step, []).append((took[ours][step], took[theirs][step]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="another checkout, with its .venv")
    parser.add_argument("--only", default="", help="what begins with this")
    parser.add_argument("--rounds", type=int, help="instead of those that each measurement has")
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        asyncio.run(serve())
        return
    ours, theirs = Side(HERE), Side(args.checkout.resolve())
    missed = False
    for what, usual in ROUNDS.items():
        if what.startswith(args.only):
            for step, pairs in measure(what, args.rounds or usual, ours, theirs).items():
                ratio = statistics.median(mine / other for mine, other in pairs)
                mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
                missed |= ratio > BAR
                print(f"{step:30} {mine:7.3f} s beside {other:7.3f} s: {ratio:5.3f}  (bar {BAR})", flush=True)
    ours.close()
    theirs.close()
    sys.exit(missed)


if __name__ == "__main__":
    main()
