"""A heart that beats while an activity works."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BEAT_SECONDS = 0.5  # calling often is cheap: the worker sends a beat at most as often as it throttles to


@contextmanager
def beating(beat: Callable[[], None]) -> Iterator[None]:
    """Call `beat` on a thread of its own, at once and again and again, until the block ends."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(BEAT_SECONDS):
            beat()

    beat()
    context = contextvars.copy_context()  # a heartbeat knows its activity by context
    thread = threading.Thread(target=context.run, args=(go_on,), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
