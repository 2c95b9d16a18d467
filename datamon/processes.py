"""The processes that run tasks: what PySpark and the C library do by default costs small tasks more than their work."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
KEPT_FREE = 128 << 20
MAPPED_FROM = 32 << 20


@cache
def settle_in() -> None:
    """What a process does before its first task.

    PySpark looks for garbage after every task. In all that was imported there is none, but to look through it takes
    10 ms: so leave it out from now on. And memory that a task has freed is kept for the next one: a tenth of a merge
    went into getting the same pages from the kernel again.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_FREE)
        libc.mallopt(_M_ARENA_MAX, 1)  # else every thread that reads would keep as much
