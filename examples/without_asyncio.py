"""A diamond of several folders of this machine, in a program without an event loop.

python examples/without_asyncio.py weather /data/part1 /data/part2
"""

import os
import sys

from datamon import connect


def main(repo: str, paths: list[str]) -> None:
    with connect() as dm:
        diamond = dm.diamonds.initialize(repo)
        for split in [diamond.add(path) for path in paths]:
            print(f"split {split.id}: {split.result().files} files")
        answer = diamond.commit("made without asyncio", label="latest")
        print(f"bundle {answer.bundle}: {answer.files} files")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)  # Temporal's client can abort the interpreter while that is taken apart
