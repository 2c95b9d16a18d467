"""What a Spark cluster must share with the worker that uses it: the sources and, if it is a directory, the store.

Tasks run on other machines there. A path means something else to each of them, and what they write to a directory of
their own would be nowhere to be found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from datamon.errors import SourceMissing, SourceUnreadable, StoreRefused
from datamon.stores import ObjectStore


@contextmanager
def same_files(*, on_cluster: bool) -> Iterator[None]:
    """Say what is wrong where tasks do not find a source that the plan was made from."""
    try:
        yield
    except SourceMissing as error:
        if not on_cluster:
            raise
        advice = "upload it with a worker whose Spark is local, or put it where all of them see it"
        raise SourceUnreadable(error.path, f"the machines of the Spark cluster do not see it; {advice}") from None


def check_written(store: ObjectStore, written: Iterable[str], *, on_cluster: bool) -> None:
    """See that what tasks wrote is in the store as this worker sees it."""
    if on_cluster and not store.is_far and not all(store.exists(key) for key in written):
        advice = "use S3, or a directory that all of them share"
        raise StoreRefused(store.url, f"the machines of the Spark cluster wrote to a directory of their own; {advice}")
