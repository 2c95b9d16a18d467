"""Whether a store can be used: whether it answers, can be written, honours conditions, and has the right time."""

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
    """One thing that was checked, and its problem, if it has one."""

    what: str
    finding: str
    problem: DatamonError | None = None


def check_store(context: Context, now: float, *, write: bool) -> Iterator[Check]:
    """Check a store; with `write`, also try to write to it. The first problem ends it, because the rest would fail too.

    A store in which nothing has been made yet is fine. Nothing is written into a folder that is not a store yet.
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
            yield Check("writes", f"{name} can be written, and honours conditions", problem)
            if problem is not None:
                return
    yield from _clock(context.metadata, now)


def _identity(context: Context) -> StoreIdentity | None:
    """The identity of the store; None if nothing has been made in it."""
    try:
        return require_store(context)
    except NoStore:
        any(context.metadata.folders(keys.REPOS))  # an empty place can be listed, but a file cannot
        return None


def _write_problem(store: ObjectStore) -> DatamonError | None:
    """What keeps us from writing. Before its first write, an S3 store tests whether the server honours conditions."""
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
    yield Check("clock", f"the clocks of the store and of this machine differ by {skew:.0f} s", problem)
