"""A diamond of several folders of this machine, with the async client.

python examples/client.py weather /data/part1 /data/part2
"""

import asyncio
import os
import sys

from datamon import ConflictMode, Datamon, DatamonError
from datamon.core.errors import SplitFailed


async def main(repo: str, paths: list[str]) -> None:
    async with await Datamon.connect() as dm:
        diamond = await dm.diamonds.initialize(repo, tag="from a program")
        print(f"diamond {diamond.id} is open")

        splits = await diamond.add_all(paths)  # returns at once; the uploads go on, each on its own
        for split in asyncio.as_completed([split.result() for split in splits]):
            try:
                report = await split
            except SplitFailed as failed:  # the others go on, and can be committed without it
                print(f"split {failed.split} failed: {failed.reason}")
            else:
                print(f"split {report.split} is done: {report.files} files")

        seen = await diamond.preview()
        print(f"{seen.conflicts} versions would lose")
        answer = await diamond.commit("made by a program", mode=ConflictMode.KEEP, label="latest")
        print(f"bundle {answer.bundle}: {answer.files} files")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2:]))
    except DatamonError as error:
        sys.exit(f"{error}")
    sys.stdout.flush()
    os._exit(0)  # Temporal's client can abort the interpreter while that is taken apart
