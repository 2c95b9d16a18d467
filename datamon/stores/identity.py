"""`store.yaml` tells a store from an empty place, and from every other store. It is made with the first repo.

Without it, a folder that is not mounted would look like a store in which nothing has been made yet.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from datamon.core.errors import AlreadyExists, NoStore
from datamon.core.ids import new_id
from datamon.core.instants import instant
from datamon.stores import descriptors, keys
from datamon.stores.context import Context


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreIdentity:
    """The descriptor of a store."""

    id: str
    created: str
    version: int = 1


def require_store(context: Context) -> StoreIdentity:
    """The identity of a store, or NoStore."""
    return descriptors.read(StoreIdentity, context.metadata, keys.STORE, NoStore(context.root))


def ensure_store(context: Context, now: int) -> StoreIdentity:
    """The identity of a store, which is made if it is not there yet."""
    with suppress(NoStore):
        return require_store(context)
    with suppress(AlreadyExists):
        context.metadata.create(keys.STORE, descriptors.dump(StoreIdentity(id=new_id(), created=instant(now))))
    return require_store(context)
