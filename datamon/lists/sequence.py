"""Several file lists read as one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from datamon.core.names import sort_key
from datamon.lists.reference import ListRef

T = TypeVar("T")


def in_order(lists: Iterable[tuple[ListRef, Iterable[T]]], name: Callable[[T], str]) -> Iterator[T]:
    """What the lists hold, in name order, opening each list only when its turn comes.

    Lists that follow each other are chained; only those that overlap (lists of lost versions do) are merged.
    """
    runs: list[list[Iterable[T]]] = []
    ends: list[tuple[str, int]] = []  # a heap: the run that ends first can be continued first
    for reference, items in sorted(lists, key=lambda pair: pair[0].start):
        if ends and ends[0][0] < reference.start:
            number = ends[0][1]
            runs[number].append(items)
            heapq.heapreplace(ends, (sort_key(reference.last), number))
        else:
            heapq.heappush(ends, (sort_key(reference.last), len(runs)))
            runs.append([items])
    chains = map(chain.from_iterable, runs)
    return heapq.merge(*chains, key=lambda item: sort_key(name(item)))
