"""Running something that needs the client, for commands, which have no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from datamon.starter.client import Datamon

Result = TypeVar("Result")


def run_connected(work: Callable[[Datamon], Awaitable[Result]]) -> Result:
    """Connect, do the work, and disconnect. The client is imported here: that takes longer than all else."""

    async def run() -> Result:
        from datamon.starter.client import Datamon

        async with await Datamon.connect() as datamon:
            return await work(datamon)

    return asyncio.run(run())
