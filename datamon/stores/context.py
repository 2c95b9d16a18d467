"""A context: the three stores that belong together."""

from __future__ import annotations

from dataclasses import dataclass

from datamon.core.errors import BadUsage
from datamon.stores.directory import DirectoryStore
from datamon.stores.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class Context:
    """The three stores, apart so that each can have its own place, permissions and life-cycle rules."""

    blob: ObjectStore
    metadata: ObjectStore
    vmetadata: ObjectStore

    @property
    def root(self) -> str:
        """Where they are, as a user writes it."""
        return self.metadata.url.removesuffix("/metadata")


def open_store(url: str, profile: str = "") -> ObjectStore:
    """The store that a URL or path names. boto3 is loaded only if it is needed, because that takes a third of a second.

    S3 is used with the credentials of the profile, if one is given.
    """
    scheme, colon, _ = url.partition("://")
    if colon and scheme == "s3":
        from datamon.stores.s3 import S3Store

        return S3Store(url, profile)
    if colon and scheme != "file":
        raise BadUsage(f"{url!r} is not a store this datamon can use; give a directory or s3://bucket/prefix")
    return DirectoryStore(url.removeprefix("file://"))


def open_context(root: str, profile: str = "") -> Context:
    """The context below one root."""
    return Context(*(open_store(f"{root.rstrip('/')}/{name}", profile) for name in ("blob", "metadata", "vmetadata")))
