"""What a workflow has under way, as the server knows it: which attempt, how far, and why the one before failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from datamon.activities.failures import from_failure
from datamon.activities.spark import Progress
from datamon.core.errors import DatamonError
from datamon.core.instants import instant
from datamon.workflows.common.retries import activity_words


@dataclass(frozen=True)
class Attempt:
    """Something that a workflow has under way: which attempt it is, counting from 1, and how far it is.

    `failure` is why the attempt before it failed; `next` is when this one begins, if it has not begun yet.
    """

    activity: str
    number: int
    progress: Progress | None = None
    failure: DatamonError | None = None
    next: str = ""


async def pending_attempts(client: Client, handle: WorkflowHandle[Any, Any]) -> list[Attempt]:
    """The activities that a workflow has under way; an empty list if the server does not answer."""
    try:
        description = await handle.describe()
    except RPCError:
        return []
    return [await _attempt(client, pending) for pending in description.raw_description.pending_activities]


async def _attempt(client: Client, pending: PendingActivityInfo) -> Attempt:
    converter = client.data_converter
    details = await converter.decode(list(pending.heartbeat_details.payloads))
    has_failed = pending.HasField("last_failure")
    waits = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED and has_failed
    return Attempt(
        activity_words(pending.activity_type.name),
        pending.attempt,
        Progress.read(details[0]) if details and isinstance(details[0], dict) else None,
        from_failure(await converter.decode_failure(pending.last_failure)) if has_failed else None,
        instant(pending.scheduled_time.ToNanoseconds()) if waits else "",
    )
