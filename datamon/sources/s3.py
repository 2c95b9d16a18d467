"""The objects below a prefix of an S3 bucket, or a single object. Tasks read them; nothing passes the driver.

A file's state is its ETag: every read asks for that very one, so a change in the middle is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from datamon.core.errors import (
    NotFound,
    ObjectChanged,
    SourceChanged,
    SourceMissing,
    SourceUnreadable,
    StoreRefused,
    UnfitFile,
)
from datamon.core.names import RESERVED, NameRange, inside_folder, name_problem, sort_key
from datamon.sources.filters import IGNORE_FILE, MAX_IGNORE_FILE
from datamon.sources.source import Source
from datamon.sources.tree import OnProblem, SourceFile, Tree
from datamon.stores.protocol import ObjectStore
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

    def read(self, file: SourceFile, start: int, length: int) -> bytes:
        """See Tree."""
        try:
            data = self._bucket.get_if(file.path.removeprefix(f"{self._bucket.url}/"), file.tag, start, length)
        except (NotFound, ObjectChanged):
            raise SourceChanged(file.name) from None
        except StoreRefused as error:
            raise SourceUnreadable(file.path, error.reason) from error
        if len(data) != length:
            raise SourceChanged(file.name)
        return data

    def reserved(self) -> list[str]:
        """See Tree."""
        return sorted(name for name in RESERVED if next(self._store.scan(f"{name}/"), None) is not None)

    def _ignored(self) -> bytes:
        item = self._store.head(IGNORE_FILE)
        if item is None:
            return b""
        if item.size > MAX_IGNORE_FILE:
            raise UnfitFile(IGNORE_FILE, f"it has more than {MAX_IGNORE_FILE:,} bytes")
        return self._store.get(IGNORE_FILE)

    def _all(self, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        alone = self._alone()
        if alone is not None:
            name = self.source.path.rpartition("/")[2]
            if names.holds(sort_key(name)) and self._wants(name):
                yield from _checked(name, f"{self._bucket.url}/{alone.key}", alone, on_problem)
        elif next(self._store.scan(""), None) is None:
            raise SourceMissing(self.source.path)
        else:
            yield from self._folder("", names, on_problem)

    def _alone(self) -> S3Object | None:
        """The source as a single object, if it is one."""
        if self.source.path.endswith("/") or not self._store.prefix:
            return None
        return self._bucket.head(self._store.prefix.rstrip("/"))

    def _one(self, name: str, on_problem: OnProblem) -> Iterator[SourceFile]:
        item = self._store.head(name)
        if item is None:
            raise FileNotFoundError
        yield from _checked(name, self._path(item), item, on_problem)

    def _folder(self, prefix: str, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        """One level. Servers order `x-1` and `x/` differently, and neither the way names are ordered, so sort here."""
        for name, objects in self._level(prefix, names):
            whole = prefix + name
            if not prefix and name in RESERVED:
                continue
            alone = next((item for item in objects if item is not None), None)
            inside = inside_folder(sort_key(whole))
            if alone is not None and names.holds(sort_key(whole)) and self._wants(whole):
                if None in objects:
                    on_problem(UnfitFile(whole, "it is both an object and a folder"))
                else:
                    yield from _checked(whole, self._path(alone), alone, on_problem)
            if None in objects and names.meets(inside.start, inside.stop or "") and self.filter.enters(whole):
                yield from self._folder(whole + "/", names, on_problem)

    def _level(self, prefix: str, names: NameRange) -> list[tuple[str, list[S3Object | None]]]:
        """The names of one level, each with the object and the folder (None) that have it."""
        first, last = (_component(key, prefix) for key in (names.start, names.stop or ""))
        end = max((f"{last[:size]}/" for size in range(1, len(last) + 1)), default="")  # `a/` comes after `a-1/`
        level: dict[str, list[S3Object | None]] = {}
        for name, item in self._store.scan(prefix, after=first[:-1]):
            if end and name > end:
                break
            level.setdefault(name, []).append(item)
        return sorted(level.items())

    def _path(self, item: S3Object) -> str:
        return f"{self._bucket.url}/{self._store.prefix}{item.key}"


def _checked(name: str, path: str, item: S3Object, on_problem: OnProblem) -> Iterator[SourceFile]:
    problem = name_problem(name)
    if problem is None and any(len(part.encode()) > MAX_PART_BYTES for part in name.split("/")):
        problem = f"no folder takes a name longer than {MAX_PART_BYTES} bytes, so nobody could download it"
    if problem is not None:
        on_problem(UnfitFile(name, problem))
    else:
        modified = (item.modified - _EPOCH) // timedelta(microseconds=1) * 1000
        yield SourceFile(name, item.size, FILE_MODE, modified, path=path, tag=item.etag)


def _component(key: str, prefix: str) -> str:
    """The name, directly below a folder, that an order key lies at or in; empty where it lies elsewhere."""
    inside = sort_key(prefix)
    return key[len(inside) :].partition("\0")[0] if key.startswith(inside) else ""
