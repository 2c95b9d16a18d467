"""A store in a local directory: a key is a path below the root.

A write is durable and atomic: temporary file, fsync, then `link` (fails where the name is taken) or `rename`
(replaces), then fsync of the folder. POSIX has no compare-and-rename, so `replace` holds a lock on a file of
the root while it compares; the kernel drops the lock when the process ends, however it ends. The temporary file of a
writer that was killed stays, until somebody who writes at least a day later removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from blake3 import blake3

from datamon.core.errors import (
    AlreadyExists,
    CorruptObject,
    NotFound,
    ObjectChanged,
    StoreFull,
    StoreRefused,
    StoreUnreachable,
)
from datamon.core.text import os_reason
from datamon.stores.protocol import ObjectInfo, SignedRequest, Versioned

_PRIVATE = ".datamon-store"  # temporary files and the lock; no key starts with it
_TEMPORARY = re.compile("[0-9a-f]{32}")
_FORGOTTEN_SECONDS = 24 * 3600  # no write takes that long, so a temporary file that old is nobody's


class DirectoryStore:
    """The ObjectStore over a directory. It is created with the first write."""

    is_remote = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self.url = str(self.root)
        self._is_swept = False

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See ObjectStore."""
        with self._reading(key), self._path(key).open("rb") as file:
            if start:
                file.seek(start)
            if length is None:
                return file.read()
            there = max(0, os.fstat(file.fileno()).st_size - start)
            return file.read(min(length, there))  # Python allocates as much as it is asked to read

    def get_versioned(self, key: str) -> Versioned:
        """See ObjectStore. The version is the digest of the bytes."""
        body = self.get(key)
        return Versioned(body, blake3(body).hexdigest())

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        try:
            with self._reading(key):
                status = self._path(key).stat()
        except NotFound:
            return None
        return ObjectInfo(key, status.st_size, status.st_mtime) if stat.S_ISREG(status.st_mode) else None

    def exists(self, key: str) -> bool:
        """See ObjectStore."""
        return self.stat(key) is not None

    def create(self, key: str, body: bytes) -> None:
        """See ObjectStore."""
        path = self._path(key)
        with self._writing(), self._temporary(body) as temporary:
            try:
                _link(temporary, path)
            except FileExistsError:
                raise AlreadyExists("object", key) from None
            _sync_folder(path.parent)

    def replace(self, key: str, body: bytes, version: str) -> None:
        """See ObjectStore."""
        path = self._path(key)
        with self._writing(), self._temporary(body) as temporary, self._lock():
            if self.get_versioned(key).version != version:
                raise ObjectChanged(key)
            temporary.rename(path)
            _sync_folder(path.parent)

    def delete(self, key: str) -> None:
        """See ObjectStore. Folders that become empty are removed too."""
        path = self._path(key)
        with self._writing(), self._lock():
            path.unlink(missing_ok=True)
        with suppress(OSError):  # the first folder that is not empty
            while (path := path.parent) != self.root:
                path.rmdir()

    def delete_many(self, keys: Iterable[str]) -> int:
        """See ObjectStore."""
        count = 0
        for key in keys:
            self.delete(key)
            count += 1
        return count

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See ObjectStore."""
        folder = prefix.rpartition("/")[0]
        return (key for key in self._keys_below(folder) if key.startswith(prefix))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See ObjectStore. An object that is removed during the listing is left out."""
        return (info for key in self.keys(prefix) if (info := self.stat(key)) is not None)

    def sign_get(self, key: str, seconds: int) -> SignedRequest | None:  # noqa: ARG002
        """See ObjectStore. Nothing serves a directory by URL."""
        return None

    def sign_create(self, key: str, seconds: int, size: int, sha256: str) -> SignedRequest | None:  # noqa: ARG002
        """See ObjectStore."""
        return None

    def clock(self) -> float | None:
        """See ObjectStore."""
        return None

    def folders(self, prefix: str) -> Iterator[str]:
        """See ObjectStore."""
        return iter(sorted(name for name, is_folder in self._listing(prefix.rstrip("/")) if is_folder))

    def _keys_below(self, folder: str) -> Iterator[str]:
        for name, is_folder in self._listing(folder):
            key = f"{folder}/{name}" if folder else name
            if is_folder:
                yield from self._keys_below(key)
            else:
                yield key

    def _listing(self, folder: str) -> Sequence[tuple[str, bool]]:
        """Names and whether each is a folder, sorted as their keys are: a folder as if it ended in `/`."""
        try:
            with os.scandir(self._path(folder)) as scan:
                inside = (item for item in scan if folder or item.name != _PRIVATE)
                listing = [(item.name, item.is_dir(follow_symlinks=False)) for item in inside]
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            if not self.root.is_dir():
                raise self._unreachable(error) from error
            return []
        except OSError as error:
            raise self._unreachable(error) from error
        return sorted(listing, key=lambda item: item[0] + "/" if item[1] else item[0])

    def _path(self, key: str) -> Path:
        """The path of a key. Part of the key may come from a descriptor that a stranger wrote."""
        if key.startswith("/") or "/../" in f"/{key}/" or "\0" in key:
            raise CorruptObject(key, "such a key leads out of the store")
        return self.root / key

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound("object", key) from None
        except OSError as error:
            raise self._unreachable(error) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> StoreUnreachable | StoreFull | StoreRefused:
        reason = os_reason(error)
        match error.errno:
            case errno.EACCES | errno.EPERM | errno.EROFS:
                return StoreRefused(self.url, reason)
            case errno.ENOSPC | errno.EDQUOT:
                return StoreFull(self.url, reason)
        return StoreUnreachable(self.url, reason)

    @contextmanager
    def _temporary(self, body: bytes) -> Iterator[Path]:
        path = self.root / _PRIVATE / uuid4().hex
        _make_folders(path.parent)
        self._sweep()
        try:
            with path.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            yield path
        finally:
            with suppress(FileNotFoundError):  # renamed
                path.unlink()

    def _sweep(self) -> None:
        """Before the first write, remove what writers that were killed have left."""
        if self._is_swept:
            return
        self._is_swept = True
        with suppress(OSError):
            for name in filter(_TEMPORARY.fullmatch, os.listdir(self.root / _PRIVATE)):
                with suppress(OSError):  # it is gone already, or another user's
                    path = self.root / _PRIVATE / name
                    if time.time() - path.lstat().st_mtime > _FORGOTTEN_SECONDS:
                        path.unlink()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        _make_folders(self.root / _PRIVATE)
        with (self.root / _PRIVATE / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name. Try again if somebody else removes the empty folder before it is used."""
    for _ in range(100):
        _make_folders(path.parent)
        with suppress(FileNotFoundError):
            os.link(temporary, path)
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def _make_folders(folder: Path) -> None:
    """Mkdir -p that is durable: each folder it makes is synced into its parent."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    with suppress(FileNotFoundError):  # somebody else removes empty folders
        with suppress(FileExistsError):
            folder.mkdir()
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(handle)
