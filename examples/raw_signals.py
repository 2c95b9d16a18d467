"""The same with nothing but Temporal's client: what a program in Go, Java or TypeScript would send, too.

    python examples/raw_signals.py weather /data/part1 /data/part2

A signal gets no answer. Whether it was taken is asked for with a query: `split` tells why an add was refused, `commit`
what became of a commit.
"""

import asyncio
import json
import os
import socket
import sys
import uuid
from pathlib import Path

from temporalio.client import Client, WorkflowHandle
from temporalio.envconfig import ClientConfig

HOST = os.environ.get("DATAMON_HOST") or socket.gethostname()  # whose worker is to read the paths
HOME = Path(os.environ.get("DATAMON_HOME", "~/.datamon")).expanduser()


async def connected() -> Client:
    config = dict(ClientConfig.load_client_connect_config())
    if "target_host" not in config:  # where `datamon up` listens
        config["target_host"] = json.loads((HOME / "stack.json").read_text())["address"]
    return await Client.connect(**config)


async def main(repo: str, paths: list[str]) -> None:
    client = await connected()
    name = f"by-signals-{uuid.uuid4().hex[:12]}"
    diamond = await client.start_workflow(
        "DiamondWorkflow",
        {"repo": repo, "diamond": name, "contributor": {"name": "A program", "email": ""}},
        id=f"diamond/{repo}/{name}",
        task_queue="datamon",
    )
    await diamond.signal("add", [{"path": str(Path(path).absolute()), "host": HOST} for path in paths])
    await until_ended(diamond, len(paths))
    await diamond.signal("commit", {"request": "my-commit", "message": "made by signals", "label": "latest"})
    answer = await outcome(diamond, "my-commit")
    print(f"bundle {answer['bundle']}: {answer['files']} files")


async def until_ended(diamond: WorkflowHandle, count: int) -> None:
    while True:
        status = await diamond.query("status")
        ended = status["splits"]["done"] + status["splits"]["failed"]
        if ended >= count:
            return
        await asyncio.sleep(0.2)


async def outcome(diamond: WorkflowHandle, request: str) -> dict:
    while True:
        found = await diamond.query("commit", request)
        if found["answer"] is not None:
            return found["answer"]
        if found["refused"] is not None:
            sys.exit(f"the commit was refused: {found['refused']}")
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
    sys.stdout.flush()
    os._exit(0)  # Temporal's client can abort the interpreter while that is taken apart
