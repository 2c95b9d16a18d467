"""Tuning of processes that run tasks: by default, PySpark and the C library take longer than a small task itself."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
KEPT_FREE = 128 << 20
MAPPED_FROM = 32 << 20


@cache
def tune_process() -> None:
    """Prepare a process for its tasks; only the first call does anything.

    PySpark collects garbage after every task. Imported modules hold none, but looking through them takes 10 ms, so they
    are left out from now on. Memory that a task has freed is kept for the next one: otherwise a tenth of a merge goes
    into getting the same pages from the kernel again.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_FREE)
        libc.mallopt(_M_ARENA_MAX, 1)  # otherwise every thread that reads would keep as much
