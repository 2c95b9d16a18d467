"""Small tools for awaiting inside a workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow

from workflows.messages import Options
from workflows.names import TASK_QUEUE

T = TypeVar("T")
Request = TypeVar("Request")


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


async def quickly(activity: Callable[[Any, Request], T], request: Request, options: Options, summary: str) -> T:
    """Have something small done to the store, on whichever worker is free."""
    return await workflow.execute_activity_method(
        activity,
        request,
        task_queue=TASK_QUEUE,
        start_to_close_timeout=timedelta(seconds=options.metadata_seconds),
        retry_policy=options.retry,
        summary=summary,
    )
