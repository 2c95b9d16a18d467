"""The objects below a prefix of an S3 bucket, or a single object. Tasks read them; nothing passes the driver.

A file's state is its ETag: every read asks for that very one, so a change in the middle is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from datamon.errors import (
    NotFound,
    ObjectChanged,
    SourceChanged,
    SourceMissing,
    SourceUnreadable,
    StoreRefused,
    UnfitFile,
)
from datamon.names import RESERVED, NameRange, below, flaw, order
from datamon.sources.tree import Found, OnUnfit, Source, Tree
from datamon.stores import ObjectStore
from datamon.stores.s3 import S3Object, S3Store

FILE_MODE = 0o644  # objects have none
MAX_PART_BYTES = 255  # between two slashes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class S3Tree(Tree):
    """The Tree over S3."""

    def __init__(self, source: Source, lists: ObjectStore | None) -> None:
        super().__init__(source, lists)
        self._store = S3Store(source.path)
        self._bucket = S3Store(f"s3://{self._store.bucket}")

    def read(self, found: Found, start: int, length: int) -> bytes:
        """See Tree."""
        try:
            data = self._bucket.get_if(found.path.removeprefix(f"{self._bucket.url}/"), found.tag, start, length)
        except (NotFound, ObjectChanged):
            raise SourceChanged(found.name) from None
        except StoreRefused as error:
            raise SourceUnreadable(found.path, error.why) from error
        if len(data) != length:
            raise SourceChanged(found.name)
        return data

    def reserved(self) -> list[str]:
        """See Tree."""
        return sorted(name for name in RESERVED if next(self._store.scan(f"{name}/"), None) is not None)

    def _all(self, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        alone = self._alone()
        if alone is not None:
            name = self.source.path.rpartition("/")[2]
            if names.holds(order(name)) and self._wants(name):
                yield from _found(name, f"{self._bucket.url}/{alone.key}", alone, on_unfit)
        elif next(self._store.scan(""), None) is None:
            raise SourceMissing(self.source.path)
        else:
            yield from self._folder("", names, on_unfit)

    def _alone(self) -> S3Object | None:
        """The source as a single object, if it is one."""
        if self.source.path.endswith("/") or not self._store.prefix:
            return None
        return self._bucket.look(self._store.prefix.rstrip("/"))

    def _one(self, name: str, on_unfit: OnUnfit) -> Iterator[Found]:
        found = self._store.look(name)
        if found is None:
            raise FileNotFoundError
        yield from _found(name, self._path(found), found, on_unfit)

    def _folder(self, prefix: str, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        """One level. Servers order `x-1` and `x/` differently, and neither the way names are ordered, so sort here."""
        for name, objects in self._level(prefix, names):
            whole = prefix + name
            if not prefix and name in RESERVED:
                continue
            alone = next((found for found in objects if found is not None), None)
            inside = below(order(whole))
            if alone is not None and names.holds(order(whole)) and self._wants(whole):
                if None in objects:
                    on_unfit(UnfitFile(whole, "it is both an object and a folder"))
                else:
                    yield from _found(whole, self._path(alone), alone, on_unfit)
            if None in objects and names.meets(inside.start, inside.stop or ""):
                yield from self._folder(whole + "/", names, on_unfit)

    def _level(self, prefix: str, names: NameRange) -> list[tuple[str, list[S3Object | None]]]:
        """The names of one level, each with the object and the folder (None) that have it."""
        first, last = (_component(key, prefix) for key in (names.start, names.stop or ""))
        end = max((f"{last[:size]}/" for size in range(1, len(last) + 1)), default="")  # `a/` comes after `a-1/`
        level: dict[str, list[S3Object | None]] = {}
        for name, found in self._store.scan(prefix, after=first[:-1]):
            if end and name > end:
                break
            level.setdefault(name, []).append(found)
        return sorted(level.items())

    def _path(self, found: S3Object) -> str:
        return f"{self._bucket.url}/{self._store.prefix}{found.key}"


def _found(name: str, path: str, found: S3Object, on_unfit: OnUnfit) -> Iterator[Found]:
    wrong = flaw(name)
    if wrong is None and any(len(part.encode()) > MAX_PART_BYTES for part in name.split("/")):
        wrong = f"no folder takes a name longer than {MAX_PART_BYTES} bytes, so nobody could download it"
    if wrong is not None:
        on_unfit(UnfitFile(name, wrong))
    else:
        modified = (found.modified - _EPOCH) // timedelta(microseconds=1) * 1000
        yield Found(name, path, found.size, FILE_MODE, modified, found.etag)


def _component(key: str, prefix: str) -> str:
    """The name, directly below a folder, that an order key lies at or in; empty where it lies elsewhere."""
    inside = order(prefix)
    return key[len(inside) :].partition("\0")[0] if key.startswith(inside) else ""
