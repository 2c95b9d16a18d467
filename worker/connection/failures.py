"""Calls to Temporal that fail, in the words of datamon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from datamon.core.errors import DatamonError, Failed, ServerUnreachable
from datamon.worker.connection.encryption import VARIABLE
from datamon.workflows.common.names import STALE_STATE

BUSY_SECONDS = 60  # a server that is still too busy then will stay so for a while
READINGS = 3  # attempts to read a workflow: after the first that fails, the worker has forgotten its state
_UNREADABLE = "[TMPRL1100]"  # Temporal's sign for a workflow that does not fit its history

Answer = TypeVar("Answer")


async def retry_while_busy(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again, for a while, if the server is too busy to take a question, or the worker asks us to.

    A worker that a query has led astray may also find that the state it remembers does not fit the history. The history
    is fine then, so it is asked again too.
    """
    pause, deadline, unreadable = 0.1, time.monotonic() + BUSY_SECONDS, 0
    while True:
        try:
            return await ask()
        except RPCError as error:
            if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED or time.monotonic() > deadline:
                raise
        except WorkflowQueryFailedError as error:
            unreadable += _UNREADABLE in str(error)
            is_passing = STALE_STATE in str(error) or 0 < unreadable < READINGS
            if not is_passing or time.monotonic() > deadline:
                raise Failed(f"the workflow could not answer: {error}") from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, 2)


def is_gone(error: RPCError) -> bool:
    """Whether there is no workflow that could do what was asked."""
    return error.status is RPCStatusCode.NOT_FOUND


def unreachable(client: Client, error: RPCError) -> DatamonError:
    """The error for a call that did not get through."""
    if "workflow task in failed state" in str(error).lower():
        hint = f"its log says why; are its version and {VARIABLE} the same as here?"
        return Failed(f"the worker cannot go on with this workflow; {hint}")
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
        return ServerUnreachable(client.service_client.config.target_host, f"it is too busy: {error}")
    return ServerUnreachable(client.service_client.config.target_host, short_reason(error))


def short_reason(error: Exception) -> str:
    """The short reason of a network error."""
    text = str(error).lower()
    return next((known for known in ("connection refused", "dns error", "certificate") if known in text), text)
