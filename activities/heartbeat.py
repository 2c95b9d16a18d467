"""Heartbeats while an activity works."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERVAL = 0.5  # seconds; calling often is cheap, because the worker throttles what it sends


@contextmanager
def heartbeating(heartbeat: Callable[[], None]) -> Iterator[None]:
    """Call `heartbeat` on a thread of its own, at once and then repeatedly, until the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(INTERVAL):
            heartbeat()

    heartbeat()
    context = contextvars.copy_context()  # a heartbeat finds its activity in the context
    thread = threading.Thread(target=context.run, args=(repeat,), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
