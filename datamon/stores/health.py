"""Whether a store can be used: that it answers, can be written, keeps its word, and has the right time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from datamon.core.errors import AlreadyExists, ClockSkewed, DatamonError, NoStore
from datamon.stores import keys
from datamon.stores.context import Context
from datamon.stores.identity import StoreIdentity, require_store
from datamon.stores.protocol import ObjectStore

MAX_SKEW = 60  # seconds that clocks may differ; servers refuse requests of 15 minutes, and times decide who wins


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what is wrong with it, if anything is."""

    what: str
    finding: str
    problem: DatamonError | None = None


def check_store(context: Context, now: float, *, write: bool) -> Iterator[Check]:
    """Look at a store; with `write`, also try to write to it. What is wrong ends it, for the rest would be too.

    A store in which nothing has been made yet is fine. Nothing is written into a folder that is none yet.
    """
    try:
        identity = _identity(context)
    except DatamonError as error:
        yield Check("store", context.root, error)
        return
    empty = f"{context.root} is empty; the first repo makes a store of it"
    yield Check("store", f"{context.root} is store {identity.id}" if identity is not None else empty)
    if write and (identity is not None or context.metadata.is_remote):
        for name, store in (("blob", context.blob), ("metadata", context.metadata), ("vmetadata", context.vmetadata)):
            problem = _write_problem(store)
            yield Check("writes", f"{name} can be written, on conditions", problem)
            if problem is not None:
                return
    yield from _clock(context.metadata, now)


def _identity(context: Context) -> StoreIdentity | None:
    """Which store it is; None, if nothing has been made in it."""
    try:
        return require_store(context)
    except NoStore:
        any(context.metadata.folders(keys.REPOS))  # an empty place can be listed, and a file cannot
        return None


def _write_problem(store: ObjectStore) -> DatamonError | None:
    """What keeps us from writing. An S3 store tries whether the server honours conditions before its first write."""
    try:
        store.create(keys.PROBE, b"")
    except AlreadyExists:
        return None
    except DatamonError as error:
        return error
    return None


def _clock(store: ObjectStore, now: float) -> Iterator[Check]:
    time = store.clock()
    if time is None:
        return
    skew = abs(time - now)
    problem = None
    if skew > MAX_SKEW:
        problem = ClockSkewed(store.url, round(skew))
    yield Check("clock", f"that of the store and ours differ by {skew:.0f} s", problem)
