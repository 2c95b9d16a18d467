"""Doing several things at a time, where each of them mostly waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

THREADS = 16  # a round trip to S3 is mostly waiting
READ_AHEAD = 256

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_concurrently(items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """Do the work on several items at a time. Results come in order, at most READ_AHEAD ahead of their use."""
    rest = iter(items)
    with ThreadPoolExecutor(THREADS) as pool:
        while batch := list(islice(rest, READ_AHEAD)):
            yield from pool.map(work, batch)
