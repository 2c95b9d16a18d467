"""A part of a large bundle: listing a folder, looking up a file, filtering a download, comparing two versions.

    python -m bench.listing --entries 1_000_000

Each question is asked in a process of its own, which tells how long it took after the start, how many bytes of how many
lists it read, and the most memory it ever had; beside it, reading the bundle whole. Writes bench/results/listing.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

from bench.load import REPO, Load, name_of, write_diamond
from bench.merge import commit_seconds
from bench.stack import running, scratch
from datamon import catalog
from datamon.stores import open_context
from starter.client import Datamon

RESULTS = Path(__file__).parent / "results" / "listing.json"

_ASK = """
import sys, time, json
from datamon import catalog
from datamon.diff import diff
from datamon.download import Wanted, bundle_entries, find
from datamon.names import EVERYTHING, found_by, prefixed
from datamon.sources import name_pattern
from datamon.stores import Context, open_context

context = open_context(sys.argv[1])
lists, read = set(), 0

class Counting:
    def get(self, key, start=0, length=None):
        global read
        body = context.metadata.get(key, start, length)
        lists.add(key)
        read += len(body)
        return body

counting = Context(context.blob, Counting(), context.vmetadata)
began = time.perf_counter()
a, b = (catalog.get_bundle(context, "bench", name) for name in sys.argv[2:4])
answer = sum(1 for _ in {question})
took = time.perf_counter() - began
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10
found = dict(answer=answer, seconds=round(took, 3), lists=len(lists), mb_read=round(read / 1e6, 1), peak_mib=peak)
print(json.dumps(found))
"""


async def bundles(entries, settings):
    """Two bundles of so many files; a twentieth of those in the second are not as in the first."""
    made = []
    async with await Datamon.connect(settings) as datamon:
        for revised in (0, 1):
            load = Load(entries, splits=20, shape="apart", revised=revised)
            diamond, _ = write_diamond(load, settings.store)
            made.append((await commit_seconds(datamon, diamond))[1].bundle)
    return made


def ask(store, made, question):
    command = [sys.executable, "-c", _ASK.replace("{question}", question), store, *made]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    args = parser.parse_args()
    middle = name_of(args.entries // 2)
    thousand = middle.rsplit("/", 1)[0] + "/"
    questions = {
        "list all": "bundle_entries(counting, b)",
        "list a prefix": f"bundle_entries(counting, b, prefixed({thousand!r}))",
        "find a file": f"[find(counting, b, {middle!r})]",
        "filter with ^": f"Wanted(found_by('^{thousand}'), name_pattern('^{thousand}').search).entries(counting, b)",
        "filter without": "Wanted(passes=name_pattern('0000/station-00499/00999').search).entries(counting, b)",
        "diff": "diff(counting, a, b)",
    }
    with scratch() as folder, running(folder) as settings:
        made = asyncio.run(bundles(args.entries, settings))
        lists = len(catalog.get_bundle(open_context(settings.store), REPO, made[1]).lists)
        found = {what: ask(settings.store, made, question) for what, question in questions.items()}
    for what, answer in found.items():
        print(f"{what:16} {answer}")
    result = {"entries": args.entries, "lists": lists, "questions": found}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
