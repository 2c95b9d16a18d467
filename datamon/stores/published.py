"""Descriptors that are the published mirror of a workflow: each revision replaces an older one, never a newer one."""

from __future__ import annotations

from typing import Protocol, TypeVar

from datamon.core.errors import AlreadyExists, NotFound, StaleWrite
from datamon.stores import descriptors
from datamon.stores.protocol import ObjectStore, Versioned


class Published(descriptors.Descriptor, Protocol):
    """A descriptor that tells which of two is the newer one."""

    @property
    def age(self) -> tuple[int, int]:
        """Greater is newer."""
        ...


P = TypeVar("P", bound=Published)


def publish(store: ObjectStore, key: str, descriptor: Published) -> None:
    """Put a descriptor over an older one, or for the first time. A write that comes late is a StaleWrite."""
    try:
        store.create(key, descriptors.dump(descriptor))
    except AlreadyExists:
        _supersede(store, key, descriptor, store.get_versioned(key))


def publish_next(store: ObjectStore, key: str, descriptor: Published) -> None:
    """Put the next revision over the one that is there. If none is there, it was removed, and is not put again."""
    try:
        seen = store.get_versioned(key)
    except NotFound:
        raise StaleWrite(key) from None
    _supersede(store, key, descriptor, seen)


def _supersede(store: ObjectStore, key: str, descriptor: Published, seen: Versioned) -> None:
    """Put a descriptor over the one that was seen there, if that is older."""
    body = descriptors.dump(descriptor)
    if seen.body == body:  # an earlier attempt of ours
        return
    if descriptors.load(type(descriptor), key, seen.body).age >= descriptor.age:
        raise StaleWrite(key)
    store.replace(key, body, seen.version)
