"""Checks of messages. A message that cannot be understood is refused, and does not stop the workflow.

An exception in a signal's handler would fail the workflow task, which Temporal then tries again for ever. So a
message of the wrong shape must never reach a handler that trusts it; and text that cannot be written as UTF-8, or is
too long to be carried on, must not be remembered.
"""

from __future__ import annotations

import inspect
import threading
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

from datamon.core.errors import BadUsage
from datamon.core.ids import MAX_TEXT, checked_text

MAX_ID = 100
MAX_SECONDS = 100 * 365 * 24 * 3600  # a timer of more would fail the workflow
_IDS = frozenset({"request", "split", "epoch"})
_converting = threading.Lock()  # msgspec crashes where two threads are the first to meet a dataclass

M = TypeVar("M")


def checked_message(kind: type[M], message: Any) -> M:
    """A message that somebody may have typed, or BadUsage. Fields of a newer version are ignored."""
    try:
        with _converting:
            converted = msgspec.convert(message, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise BadUsage(storable_text(f"{kind.__name__}: {error}")) from None
    return check_values(converted)


def check_values(message: M) -> M:
    """The message, or BadUsage where a value in it cannot be stored or carried on."""
    for field in fields(message):  # type: ignore[arg-type]
        _check_value(field.name, getattr(message, field.name))
    return message


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, str):
        checked_text(f"`{name}`", value, MAX_ID if name in _IDS else MAX_TEXT)
    elif (isinstance(value, int) and not 0 <= value < 1 << 63) or (
        isinstance(value, float) and not 0 <= value <= MAX_SECONDS
    ):
        raise BadUsage(f"`{name}` is out of bounds")
    elif isinstance(value, dict):
        for text in (*value, *value.values()):
            _check_value(name, text)
    elif isinstance(value, list):
        for one in value:
            _check_value(name, one)
    elif is_dataclass(value):
        check_values(value)


def storable_text(text: str) -> str:
    """Text that can be stored, made from text of unknown origin."""
    return text.encode(errors="replace")[:MAX_TEXT].decode(errors="ignore")


def summary_text(text: str) -> str:
    """Text that fits into a summary, of which the server takes 400 bytes."""
    whole = storable_text(text).encode()
    return whole.decode() if len(whole) <= 300 else whole[:300].decode(errors="ignore") + "…"


class SignalArgumentCheck(Interceptor):
    """Drops signals that do not have as many arguments as their handler takes."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor] | None:
        """See Interceptor."""
        return _SignalArguments


class _SignalArguments(WorkflowInboundInterceptor):
    async def handle_signal(self, input: HandleSignalInput) -> None:
        handler = workflow.get_signal_handler(input.signal)
        if handler is not None:
            try:
                inspect.signature(handler).bind(*input.args)
            except TypeError as error:
                workflow.logger.warning("signal %s dropped: %s", input.signal, error)
                return
        await super().handle_signal(input)
