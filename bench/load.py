"""Diamonds full of splits that were never uploaded: what a commit of millions of files is measured on.

    python -m bench.load --store /dev/shm/store --entries 1_000_000 --splits 10

Writes done splits straight through the library, lists and descriptors as an upload leaves them, but no content.
Prints the repo and the diamond; `datamon diamond recover` gives it a workflow, and then it can be committed:

    DATAMON_STORE=/dev/shm/store datamon up --detach
    DATAMON_STORE=/dev/shm/store datamon diamond recover --repo bench --diamond $diamond
"""

from __future__ import annotations

import argparse
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

from datamon.bundles.repos import create_repo
from datamon.content.entry import Entry, Place
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists
from datamon.core.ids import DiamondId, RepoName, SplitId, new_id
from datamon.core.instants import instant
from datamon.diamonds.catalog import open_diamond
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.lists.writer import UploadListWriter
from datamon.sources.plan import MAX_FILES
from datamon.stores import descriptors, keys
from datamon.stores.context import open_context

REPO = RepoName("bench")
WHO = Contributor("Bench")
PER_FOLDER = 1_000
PER_PACK = 4_000
PER_FRAME, FRAME_STORED = 128, 262_144  # a MiB that compresses to a quarter
SHAPES = ("mixed", "apart", "same")


@dataclass(frozen=True)
class Load:
    """What the splits of a diamond hold.

    mixed: neighbouring names belong to different splits, and a share of them to two.
    apart: every split has folders of its own.
    same:  every split holds every name, each with content of its own in the given share.
    """

    entries: int
    splits: int = 10
    conflicts: float = 0.01
    shape: str = "mixed"
    list_entries: int = MAX_FILES
    seed: int = 1
    revised: int = 0  # so many splits have other content than in the load without
    later: int = 0  # uploaded so many seconds later

    def names(self, split):
        """(number, contested) of each file of a split, in order."""
        each = self.entries // self.splits
        every = round(0.5 / self.conflicts) if self.conflicts else 0  # of two that share a name one loses
        for n in range(each):
            if self.shape == "mixed" and every and n % every == 0 and self.splits > 1:
                yield n * self.splits + (split // 2 * 2), True  # two splits at a time share a name
            elif self.shape == "mixed":
                yield n * self.splits + split, False
            elif self.shape == "apart":
                yield split * each + n, False
            else:
                yield n, bool(every) and n % every == 0

    def entry(self, number, split, contested, packs, rng):
        size = 1_000 + number % 9_000
        own = contested or self.shape != "same"
        content = rng.randbytes(32).hex() if own else f"{number:064x}"
        frame, within = divmod(number % PER_PACK, PER_FRAME)
        at = Place(packs[number // PER_PACK % len(packs)], within * 8_192, frame * FRAME_STORED, FRAME_STORED)
        return Entry(
            name_of(number),
            content,
            size,
            0o644,
            1_760_000_000 * 10**9,
            (1_763_000_000 + self.later) * 10**9 + split,
            at,
        )


def name_of(number):
    """As a pipeline would name them, 44 characters; they sort as their numbers do."""
    folder = number // PER_FOLDER
    return f"observations/{folder // 1000:04d}/station-{folder % 1000:05d}/{number % PER_FOLDER:05d}.csv"


def write_split(split, load, store, diamond):
    """Put the lists and the descriptor of one done split."""
    context, rng = open_context(store), random.Random(f"{load.seed} {split} {split < load.revised}")
    name, packs = SplitId(f"split-{split:05d}"), [rng.randbytes(32).hex() for _ in range(8)]
    infos, rest = [], load.names(split)
    while some := list(islice(rest, load.list_entries)):
        writer = UploadListWriter()
        writer.add(*(load.entry(number, split, contested, packs, rng) for number, contested in some))
        index = keys.upload_index(1, f"{load.seed:08x}", len(infos))
        body, info = writer.seal(index)
        context.vmetadata.create(keys.uploaded_list(keys.split_folder(REPO, diamond, name), index), body)
        infos.append(info)
    now = instant(time.time_ns())
    done = Split(
        id=name,
        diamond=diamond,
        repo=REPO,
        state=SplitState.DONE,
        generation=1,
        revision=3,
        tag="",
        contributor=WHO,
        host="bench",
        source="/dev/null",
        created=now,
        started=now,
        position=split,
        ended=now,
        files=sum(info.count for info in infos),
        bytes=sum(info.bytes for info in infos),
        plan=f"{load.seed:08x}",
        lists=infos,
    )
    context.vmetadata.create(keys.split(REPO, diamond, name), descriptors.dump(done))
    return done.files


def write_diamond(load, store):
    """Put a diamond whose splits are all done, and give its id."""
    context, now = open_context(store), time.time_ns()
    with suppress(AlreadyExists):
        create_repo(context, REPO, "measured", WHO, now)
    diamond = DiamondId(new_id())
    at = instant(now)
    state = DiamondState.INITIALIZED
    opened = Diamond(id=diamond, repo=REPO, state=state, contributor=WHO, created=at, updated=at, revision=1)
    open_diamond(context, opened)
    write = partial(write_split, load=load, store=store, diamond=diamond)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        files = sum(pool.map(write, range(load.splits), chunksize=max(1, load.splits // 64)))
    return diamond, files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="a directory or s3://bucket/prefix")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--conflicts", type=float, default=0.01, help="which share of the files lose")
    parser.add_argument("--shape", choices=SHAPES, default="mixed", help=Load.__doc__)
    args = parser.parse_args()
    load = Load(args.entries, args.splits, args.conflicts, args.shape)
    diamond, files = write_diamond(load, args.store)
    print(f"{files} files in {load.splits} splits: --repo {REPO} --diamond {diamond}")


if __name__ == "__main__":
    main()
