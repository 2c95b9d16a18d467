"""What an object store is.

There is no unconditional write. An object is created once (`create`), or replaced by somebody who says which version of
it they have seen (`replace`); so a writer that wakes up late cannot undo anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from datamon.core.errors import AlreadyExists, BadUsage


@dataclass(frozen=True, slots=True)
class Versioned:
    """An object's bytes, and the token that says which version of it they are."""

    body: bytes
    version: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store says about an object without giving its bytes."""

    key: str
    size: int
    modified: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request that anybody can make until it expires: its URL, and the headers that must go with it."""

    url: str = field(repr=False)  # it is a secret as long as it is valid
    headers: dict[str, str] = field(default_factory=dict)


class ObjectStore(Protocol):
    """Objects under keys.

    What every store promises:

    - an object is there whole or not at all, also after a crash;
    - a read sees every write that has returned;
    - of many concurrent `create`s of a key exactly one succeeds; likewise of many `replace`s of one version;
    - listings are complete.

    A missing object is NotFound("object", key), a store that cannot be used now is StoreUnreachable.
    """

    @property
    def url(self) -> str:
        """Where it is, as a user writes it."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a request is mostly waiting, so that several at a time are worth their threads."""
        ...

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or as many of the asked-for range as there are."""
        ...

    def get_versioned(self, key: str) -> Versioned:
        """The object's bytes with their version, for a later `replace`."""
        ...

    def stat(self, key: str) -> ObjectInfo | None:
        """Size and age of the object; None if it is not there."""
        ...

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Put the object if it is absent, else AlreadyExists."""
        ...

    def replace(self, key: str, body: bytes, version: str) -> None:
        """Put the object over the version that was seen, else ObjectChanged."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object. It is not an error if it is not there."""
        ...

    def delete_many(self, keys: Iterable[str]) -> int:
        """Remove many objects with as few requests as possible. Returns the number of keys."""
        ...

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Every key that starts with the prefix, once, in whatever order the store keeps them."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the prefix, with size and age."""
        ...

    def clock(self) -> float | None:
        """What time it is for the store, in seconds since the epoch; None if it goes by this machine's clock."""
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """The names directly below a prefix that ends in `/`, in order, without reading what is in them."""
        ...

    def sign_get(self, key: str, seconds: int) -> SignedRequest | None:
        """A GET of the object that needs no credentials for so long; None where the store cannot sign."""
        ...

    def sign_create(self, key: str, seconds: int, size: int, sha256: str) -> SignedRequest | None:
        """A PUT that creates the object, of just this size and SHA-256 (hex); None where the store cannot sign."""
        ...


def s3_location(url: str) -> tuple[str, str]:
    """The bucket and the prefix, empty or ending in `/`, that s3://bucket/prefix names."""
    bucket, _, path = url.removeprefix("s3://").partition("/")
    path = path.rstrip("/")
    if not url.startswith("s3://") or not bucket or "//" in f"/{path}":
        raise BadUsage(f"{url!r} is not an S3 location; write it as s3://bucket/prefix")
    return bucket, f"{path}/" if path else ""


def create_same(store: ObjectStore, key: str, body: bytes) -> None:
    """Create an object. If it is there with the same bytes, an earlier attempt of ours made it, and that is fine."""
    try:
        store.create(key, body)
    except AlreadyExists:
        if store.get(key) != body:
            raise
