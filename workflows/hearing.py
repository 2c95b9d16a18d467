"""Messages read with care. What cannot be understood is refused, and stops nothing.

An exception in a signal's handler would fail the workflow task, which Temporal then tries again for ever. So a message
of the wrong shape must never get as far as a handler that believes in it; and text that cannot be written as UTF-8, or
is too long to be carried on, must not be remembered.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import msgspec
from temporalio import workflow
from temporalio.worker import (
    HandleSignalInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from datamon.errors import BadUsage
from datamon.ids import MAX_TEXT, plain_text
from workflows.messages import AddSplit, CancelRequest, CommitRequest, SplitReport

MAX_ID = 100
_IDS = frozenset({"request", "split", "epoch"})

M = TypeVar("M")
T = TypeVar("T", AddSplit, CommitRequest, CancelRequest, SplitReport)

for _kind in (AddSplit, CommitRequest, CancelRequest, SplitReport):
    with suppress(msgspec.ValidationError):  # msgspec crashes where two threads are the first to meet a dataclass
        msgspec.convert({}, _kind)


def heard(kind: type[T], told: Any) -> T:
    """A message that somebody may have typed, or BadUsage. Fields of a newer version are left alone.

    Histories of before messages were checked go on as they began: there, only the shape counts.
    """
    try:
        message = msgspec.convert(told, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise BadUsage(readable(f"{kind.__name__}: {error}")) from None
    try:
        return check_values(message)
    except BadUsage:
        if checks_messages():
            raise
        return message


def checks_messages() -> bool:
    """Whether rules hold that older histories do not know. Asked only where they would refuse something."""
    return not workflow.in_workflow() or workflow.patched("messages-are-checked")


def check_values(message: M) -> M:
    """The message, or BadUsage where a value in it cannot be stored or carried on."""
    for field in fields(message):  # type: ignore[arg-type]
        value = getattr(message, field.name)
        if isinstance(value, str):
            plain_text(f"`{field.name}`", value, MAX_ID if field.name in _IDS else MAX_TEXT)
        elif isinstance(value, int) and not 0 <= value < 1 << 63:
            raise BadUsage(f"`{field.name}` is out of bounds")
        elif is_dataclass(value):
            check_values(value)
    return message


def readable(text: str) -> str:
    """Text that can be stored, out of text that comes from nobody knows where."""
    return text.encode(errors="replace")[:MAX_TEXT].decode(errors="ignore")


def brief(text: str) -> str:
    """Text that fits into a summary, of which the server takes 400 bytes."""
    whole = readable(text).encode()
    return whole.decode() if len(whole) <= 300 else whole[:300].decode(errors="ignore") + "…"


class HearSafely(Interceptor):
    """Drops signals with another number of arguments than their handler takes."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor] | None:
        """See Interceptor."""
        return _Ear


class _Ear(WorkflowInboundInterceptor):
    async def handle_signal(self, input: HandleSignalInput) -> None:
        handler = workflow.get_signal_handler(input.signal)
        if handler is not None:
            try:
                inspect.signature(handler).bind(*input.args)
            except TypeError as error:
                workflow.logger.warning("signal %s dropped: %s", input.signal, error)
                return
        await super().handle_signal(input)
