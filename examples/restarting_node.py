"""A node that may be killed at any moment. It saves its split's id before it uploads, and gives it back when it is
started again: the same split goes on, and its newest run is the one that counts.

    python examples/restarting_node.py weather $diamond /data/part1 /var/lib/node/split-id
"""

import asyncio
import os
import sys
from pathlib import Path

from datamon import Datamon, SplitOptions
from datamon.core.errors import WrongState
from datamon.core.ids import new_id


async def main(repo: str, diamond: str, path: str, state: Path) -> None:
    saved = state.read_text() if state.exists() else ""
    if not saved:
        saved = new_id()
        state.write_text(saved)  # before the split exists, so that no crash can lose it
    async with await Datamon.connect() as dm:
        try:
            split = await dm.diamonds.get(repo, diamond).add(path, SplitOptions(id=saved, create=True))
        except WrongState as refused:
            if refused.state != "done":
                raise
            print(f"split {saved} is done already")
            return
        print(f"split {split.id} is running", flush=True)
        report = await split.result()
        print(f"split {split.id} is done: {report.files} files")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
    sys.stdout.flush()
    os._exit(0)  # Temporal's client can abort the interpreter while that is taken apart
