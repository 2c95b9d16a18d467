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

BUSY_SECONDS = 60  # a server that is still too busy then will not be less so soon

Answer = TypeVar("Answer")


async def retry_while_busy(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again, for a while, where the server is too busy to take a question, or the worker asks us to."""
    pause, deadline = 0.1, time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return await ask()
        except RPCError as error:
            if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED or time.monotonic() > deadline:
                raise
        except WorkflowQueryFailedError as error:
            if STALE_STATE not in str(error) or time.monotonic() > deadline:
                raise Failed(f"the workflow could not answer: {error}") from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, 2)


def unreachable(client: Client, error: RPCError) -> DatamonError:
    """What to say of a call that did not get through."""
    if "workflow task in failed state" in str(error).lower():
        hint = f"its log says why; are its version and {VARIABLE} the same as here?"
        return Failed(f"the worker cannot go on with this workflow; {hint}")
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
        return ServerUnreachable(client.service_client.config.target_host, f"it is too busy: {error}")
    return ServerUnreachable(client.service_client.config.target_host, short_reason(error))


def short_reason(error: Exception) -> str:
    """What a network error comes down to."""
    text = str(error).lower()
    return next((known for known in ("connection refused", "dns error", "certificate") if known in text), text)
