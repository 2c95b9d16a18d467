"""Small tools for awaiting inside a workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def outlast_cancel(work: Coroutine[Any, Any, T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """Await some work to its end, even if the workflow is cancelled meanwhile; `on_cancel` may hurry it up."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            on_cancel()
