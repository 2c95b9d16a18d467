"""A part of a large bundle: listing a folder, looking up a file, filtering a download, comparing two versions.

    python -m bench.listing --entries 1_000_000

Each question is asked in a process of its own, which tells how long it took after the start, how many bytes of how many
lists it read, and the most memory it ever had; beside it, reading the bundle whole. Writes bench/results/listing.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys

from bench.load import REPO, Load, name_of, write_diamond
from bench.merge import commit_seconds
from bench.stack import BIN, clock, running, save, scratch
from datamon.bundles.catalog import get_bundle
from datamon.starter.client import Datamon
from datamon.stores.context import open_context

_ASK = """
import sys, time, json
from datamon.bundles.catalog import get_bundle
from datamon.bundles.diff import diff
from datamon.bundles.reader import BundleReader, Selection
from datamon.core.names import range_of_pattern, with_prefix
from datamon.sources.source import name_pattern
from datamon.stores.context import Context, open_context

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
a, b, c = (BundleReader(counting, get_bundle(context, "bench", name)) for name in sys.argv[2:5])
answer = sum(1 for _ in {question})
took = time.perf_counter() - began
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10
result = dict(answer=answer, seconds=round(took, 3), lists=len(lists), mb_read=round(read / 1e6, 1), peak_mib=peak)
print(json.dumps(result))
"""


async def bundles(entries, settings):
    """Three bundles of so many files: one, one of which a twentieth differs, and the first uploaded again."""
    made = []
    async with await Datamon.connect(settings) as datamon:
        for revised, later in ((0, 0), (1, 0), (0, 1)):
            load = Load(entries, splits=20, shape="apart", revised=revised, later=later)
            diamond, _ = write_diamond(load, settings.store)
            made.append((await commit_seconds(datamon, diamond))[1].bundle)
    return made


def ask(store, made, question):
    command = [sys.executable, "-c", _ASK.replace("{question}", question), store, *made]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def folder_of(entries):
    """A folder of a thousand files, in the middle."""
    return name_of(entries // 2).rsplit("/", 1)[0] + "/"


def questions(entries):
    """What is asked, as Python, by its name."""
    middle = name_of(entries // 2)
    thousand = folder_of(entries)
    return {
        "list all": "b.entries()",
        "list a prefix": f"b.entries(with_prefix({thousand!r}))",
        "find a file": f"[b.find({middle!r})]",
        "filter with ^": f"Selection(range_of_pattern('^{thousand}'), name_pattern('^{thousand}').search).entries(b)",
        "filter without": "Selection(accepts=name_pattern('0000/station-00499/00999').search).entries(b)",
        "diff, one split of 20 differs": "diff(a, b)",
        "diff, uploaded again": "diff(a, c)",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    args = parser.parse_args()
    with scratch() as folder, running(folder) as settings:
        made = asyncio.run(bundles(args.entries, settings))
        lists = len(get_bundle(open_context(settings.store), REPO, made[1]).lists)
        found = {what: ask(settings.store, made, question) for what, question in questions(args.entries).items()}
        found["the command"] = {"seconds": command_seconds(settings.store, made[1], folder_of(args.entries))}
    prefix = found["list a prefix"]
    bars = [("seconds to list a prefix", prefix["seconds"], 0.5), ("lists read", prefix["lists"], 2)]
    save("listing", {"entries": args.entries, "lists": lists, "questions": found}, bars)


def command_seconds(store, bundle, prefix):
    """What a person waits for `bundle list files --prefix`, with the start of Python."""
    words = ("bundle", "list", "files", "--repo", REPO, "--bundle", bundle, "--prefix", prefix)
    environment = os.environ | {"DATAMON_STORE": store}
    with clock() as took:
        subprocess.run([BIN / "datamon", *words], env=environment, check=True, capture_output=True)
    return round(took[0], 3)


if __name__ == "__main__":
    main()
