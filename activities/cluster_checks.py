"""What a Spark cluster must share with the worker that uses it: the sources and, if it is a directory, the store.

Tasks run on other machines there. The same path may name other files on each of them, and nobody would find what a task
writes to a directory of its own machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from datamon.core.errors import NotFound, SourceChanged, SourceMissing, SourceUnreadable, StoreRefused
from datamon.stores.protocol import ObjectStore


@contextmanager
def same_files(*, on_cluster: bool) -> Iterator[None]:
    """Explain the error if tasks do not find the source that the plan was made from."""
    try:
        yield
    except (SourceMissing, SourceChanged) as error:
        if not on_cluster:
            raise
        seen = "do not see it" if isinstance(error, SourceMissing) else "see other files there, or it has changed"
        advice = "upload it with a worker whose Spark is local, or put it where all of them see it"
        raise SourceUnreadable(error.path, f"the machines of the Spark cluster {seen}; {advice}") from None


@contextmanager
def same_store(store: ObjectStore, *, on_cluster: bool) -> Iterator[None]:
    """Explain the error if tasks do not find in their store what this worker finds in its own."""
    try:
        yield
    except NotFound as error:
        if on_cluster and not store.is_remote and error.kind == "object":
            raise not_shared(store) from None
        raise


def check_written(store: ObjectStore, written: Iterable[str], *, on_cluster: bool) -> None:
    """Check that this worker finds in its store what tasks wrote."""
    if on_cluster and not store.is_remote and not all(store.exists(key) for key in written):
        raise not_shared(store)


def not_shared(store: ObjectStore) -> StoreRefused:
    """The error for a store directory that the machines of the cluster do not share."""
    advice = "use S3, or a directory that all of them share"
    return StoreRefused(store.url, f"the machines of the Spark cluster have another directory there; {advice}")
