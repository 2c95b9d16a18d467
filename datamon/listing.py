"""Several file lists read as one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from datamon.model import ListInfo
from datamon.names import order

T = TypeVar("T")


def in_order(lists: Iterable[tuple[ListInfo, Iterable[T]]], name: Callable[[T], str]) -> Iterator[T]:
    """What the lists hold, in name order, opening each list only when its turn comes.

    Lists that follow each other are chained; only those that overlap (the lists of lost versions do) are merged.
    """
    runs: list[list[Iterable[T]]] = []
    ends: list[tuple[str, int]] = []  # a heap: the run that ends first can go on first
    for info, items in sorted(lists, key=lambda pair: order(pair[0].first)):
        if ends and ends[0][0] < order(info.first):
            number = ends[0][1]
            runs[number].append(items)
            heapq.heapreplace(ends, (order(info.last), number))
        else:
            heapq.heappush(ends, (order(info.last), len(runs)))
            runs.append([items])
    chains = map(chain.from_iterable, runs)
    return heapq.merge(*chains, key=lambda item: order(name(item)))
