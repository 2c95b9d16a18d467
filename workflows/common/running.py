"""Running activities from a workflow, and work that outlives a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow

from datamon.core.ids import RANDOM_BYTES, id_at
from datamon.core.instants import instant
from datamon.workflows.common.names import TASK_QUEUE
from datamon.workflows.common.options import Options
from datamon.workflows.common.retries import ShowsRetries, activity_words

Result = TypeVar("Result")
Request = TypeVar("Request")


def new_id() -> str:
    """A fresh KSUID, the same in every replay."""
    return id_at(workflow.time(), workflow.random().randbytes(RANDOM_BYTES))


def now() -> str:
    """The time, the same in every replay."""
    return instant(workflow.time_ns())


async def complete_despite_cancel(
    work: Coroutine[Any, Any, Result], on_cancel: Callable[[], None] = lambda: None
) -> Result:
    """Await some work to its end, even if the workflow is cancelled meanwhile; `on_cancel` may hurry it up."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            on_cancel()


async def run_metadata_activity(
    activity: Callable[[Any, Request], Result], request: Request, options: Options, summary: str
) -> Result:
    """Run an activity that does something small to the store, on whichever worker is free."""
    with _forgetting_failed_attempts(activity):
        return await workflow.execute_activity_method(
            activity,
            request,
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=options.metadata_seconds),
            retry_policy=options.retry,
            summary=summary,
        )


async def run_long_activity(
    activity: Callable[[Any, Request], Result],
    request: Request,
    options: Options,
    summary: str,
    *,
    queue: str = TASK_QUEUE,
    heartbeat_seconds: float | None = None,
) -> Result:
    """Run an activity that takes long and sends heartbeats. If it is cancelled, wait until it has stopped."""
    with _forgetting_failed_attempts(activity):
        return await workflow.execute_activity_method(
            activity,
            request,
            task_queue=queue,
            start_to_close_timeout=timedelta(days=options.spark_days),
            heartbeat_timeout=timedelta(seconds=heartbeat_seconds or options.heartbeat_seconds),
            retry_policy=options.retry,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )


@contextmanager
def _forgetting_failed_attempts(activity: Callable[..., Any]) -> Iterator[None]:
    """Forget the failed attempts of an activity once it has ended, with whatever outcome."""
    owner = workflow.instance()

    def forget() -> None:
        if isinstance(owner, ShowsRetries):
            owner.forget_failed_attempts(activity_words(activity.__name__))

    try:
        yield
    except GeneratorExit:  # the workflow leaves the worker's memory; the activity goes on
        raise
    except BaseException:
        forget()
        raise
    forget()
