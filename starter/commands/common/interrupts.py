"""Ctrl-C: as something that can be waited for, and what to say about what it does not stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from datamon.starter.output import say


@contextmanager
def on_interrupt(remark: str) -> Iterator[None]:
    """Say what a Ctrl-C does not stop."""
    try:
        yield
    except asyncio.CancelledError:
        say(remark)
        raise


@contextmanager
def interrupts() -> Iterator[asyncio.Queue[None]]:
    """Ctrl-C as something that can be waited for, as long as the block runs."""
    pressed: asyncio.Queue[None] = asyncio.Queue()
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, pressed.put_nowait, None)
    try:
        yield pressed
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
