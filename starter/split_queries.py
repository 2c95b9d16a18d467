"""Questions about the splits of a diamond, asked together.

A diamond answers one query at a time, and the server turns queries away when too many wait. So while one is under way,
whoever else wants to know of a split is put down for the next, and all of them get their answers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice

from datamon.core.ids import SplitId
from datamon.workflows.diamonds.diamond import PAGE
from datamon.workflows.diamonds.messages import SplitStatus

POLL_SECONDS = 0.5  # while a split waits for a place in its diamond's window
POLLED = 25  # so many splits can be asked for that often

Ask = Callable[[list[SplitId]], Awaitable[list[SplitStatus]]]


class SplitQueries:
    """Asks for one split or for many in the same number of queries."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._asked = 0  # how many splits the last question was about
        self._wanted: dict[SplitId, asyncio.Future[SplitStatus]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def get(self, split: SplitId) -> SplitStatus:
        """One split as the diamond sees it now."""
        if split not in self._wanted:
            self._wanted[split] = asyncio.get_running_loop().create_future()
        wanted = self._wanted[split]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        return await asyncio.shield(wanted)

    @property
    def pause(self) -> float:
        """Seconds to wait before asking again: the more splits are asked for, the more an answer costs the diamond."""
        return POLL_SECONDS * max(1, self._asked / POLLED)

    async def _ask_all(self) -> None:
        while self._wanted:
            await asyncio.sleep(0)  # let the others of this moment in
            asked = {split: self._wanted.pop(split) for split in list(islice(self._wanted, PAGE))}
            self._asked = len(asked)
            try:
                for future, status in zip(asked.values(), await self._ask(list(asked)), strict=True):
                    future.set_result(status)
            except Exception as error:  # noqa: BLE001 - each of those who wait has to learn of it
                for future in asked.values():
                    if not future.done():
                        future.set_exception(error)
                        future.exception()  # who asked may have left meanwhile
            finally:  # where the program ends in the middle of it, nobody waits for ever
                for future in asked.values():
                    future.cancel()
