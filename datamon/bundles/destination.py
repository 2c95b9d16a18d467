"""The folder that a bundle is downloaded into: who may write to it, and how a file gets its name.

    {destination}/.datamon/partial/{bundle}/    while it is under way: an interrupted download goes on from here
    {destination}/.datamon/{bundle}.yaml        the bundle's descriptor, written last: so a later download knows what
                                                this one put here, and may delete it

A file gets its name only when its bytes have the right hash, so what stands under a name is whole. Until then a small
one has no name at all, where the file system knows such files, and a large one grows in `partial`. No list can make a
file appear outside the destination, not even through a link that is there already.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from datamon.bundles.reader import OWN_FOLDER
from datamon.content.entry import FOLDER, Entry
from datamon.core.errors import DestinationInUse, Remedy, UnsafePath
from datamon.core.ids import BundleId
from datamon.core.names import is_within
from datamon.stores.descriptors import MAX_BYTES

_PERMISSIONS = 0o777  # what a list may give a file: never the rights of its owner to whoever runs it


class Destination:
    """A folder that one bundle is downloaded into."""

    def __init__(self, top: Path, bundle: BundleId) -> None:
        self._top, self._bundle = str(top), bundle
        self._partial = f"{OWN_FOLDER}/partial/{bundle}"
        self._safe: set[str] = {""}
        self._lock = threading.Lock()
        self._numbers = count()
        self._modes: dict[str, int] = {}  # what folders get at the end that their owner may not write to
        self._can_be_unnamed = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")

    @contextmanager
    def claimed(self, *, force: bool) -> Iterator[bool]:
        """Make it ours while the block runs, or refuse. Gives whether files of the bundle may be there already."""
        may_hold_files = self._claim(force=force)
        with open(self._path(f"{self._partial}/lock"), "ab", opener=_open_readable) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DestinationInUse(self._top, "is being filled by another process", Remedy.NONE) from None
            for name in os.listdir(self._path(self._partial)):
                if name.endswith(".new"):  # small files that were never finished
                    os.unlink(self._path(f"{self._partial}/{name}"))
            try:
                yield may_hold_files
            finally:
                for folder in sorted(self._modes, reverse=True):  # what is in it before the folder
                    with suppress(FileNotFoundError):
                        os.chmod(self._path(folder), self._modes[folder])

    def _claim(self, *, force: bool) -> bool:
        if os.path.lexists(self._top) and not os.path.isdir(self._top):
            raise DestinationInUse(self._top, "is a file", Remedy.NONE)
        os.makedirs(self._top, exist_ok=True)
        ours = os.path.isdir(self._path(self._partial))
        empty = not os.listdir(self._top)
        if not (empty or ours or force):
            raise DestinationInUse(self._top)
        self._make(self._partial)
        return not empty

    def release(self, descriptor: bytes | None) -> None:
        """All is there that was to come. There is a descriptor if that is the whole bundle."""
        if descriptor is not None:
            done = self._path(f"{self._partial}/done")
            with open(done, "wb", opener=_open_readable) as file:
                file.write(descriptor)
            os.replace(done, self._path(f"{OWN_FOLDER}/{self._bundle}.yaml"))
        shutil.rmtree(self._path(self._partial))
        if not os.listdir(self._path(f"{OWN_FOLDER}/partial")):
            os.rmdir(self._path(f"{OWN_FOLDER}/partial"))

    def has(self, entry: Entry) -> bool:
        """Whether the very file is there. It is read, not trusted."""
        self._check_above(entry.name)
        path = self._path(entry.name)
        try:
            same = _is_same(path, entry)
        except OSError:
            return False
        if same and entry.is_folder:
            self._set_folder(entry)
        elif same and entry.link is None:
            os.chmod(path, _mode(entry))
            os.utime(path, ns=(entry.mtime, entry.mtime))
        return same

    def _set_folder(self, entry: Entry) -> None:
        folder, mode = entry.name.removesuffix(FOLDER), entry.mode & _PERMISSIONS
        os.chmod(self._path(folder), mode | stat.S_IRWXU)
        os.utime(self._path(folder), ns=(entry.mtime, entry.mtime))
        self._modes[folder] = mode

    def write(self, entry: Entry, data: bytes | memoryview) -> None:
        """A whole small file, an empty folder or a symbolic link."""
        above = entry.name.rpartition("/")[0]
        self._make(above)
        if entry.link is not None:
            self._write_link(entry, entry.link)
        elif entry.is_folder:
            self._set_folder(entry)
        elif not (self._can_be_unnamed and self._write_unnamed(entry, above, data)):
            self._write_aside(entry, data)

    def _write_unnamed(self, entry: Entry, above: str, data: bytes | memoryview) -> bool:
        """In the folder where it belongs, without a name until it is whole: quick, and nothing is left behind."""
        try:
            handle = os.open(self._path(above), os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError:
            self._can_be_unnamed = False  # this file system does not know the like
            return False
        try:
            write_all(handle, data)
            self._set_attributes(handle, entry)
            os.link(f"/proc/self/fd/{handle}", self._path(entry.name), src_dir_fd=handle, follow_symlinks=True)
        except FileExistsError:  # a link replaces nothing
            return False
        finally:
            os.close(handle)
        return True

    def earlier(self) -> Iterator[tuple[str, bytes]]:
        """The bundles that were downloaded here before, whole: where their descriptors lie, and their bytes."""
        folder = self._path(OWN_FOLDER)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".yaml") and name != f"{self._bundle}.yaml":
                with open(f"{folder}/{name}", "rb", opener=_open_own) as file:
                    yield f"{folder}/{name}", file.read(MAX_BYTES + 1)

    def remove(self, entry: Entry) -> bool | None:
        """Remove the very file that a download put here, and folders that become empty. None if it is gone already.

        Whether it was removed: what has been changed since, or is reached through a link, is somebody's own by now.
        """
        try:
            self._check_above(entry.name)
            if not _is_same(self._path(entry.name), entry):
                return False
        except (FileNotFoundError, UnsafePath):
            return None
        except PermissionError:
            return False
        folder = entry.name.rpartition("/")[0]
        if entry.is_folder:
            if os.listdir(self._path(folder)):
                return None  # others have put something there; it is no empty folder any more
        else:
            os.unlink(self._path(entry.name))
        with suppress(OSError):  # the first that is not empty
            while folder:
                os.rmdir(self._path(folder))
                self._safe.discard(folder)
                self._modes.pop(folder, None)  # a file may come in its place
                folder = folder.rpartition("/")[0]
        return True

    def forget(self, descriptor: str) -> None:
        """The bundle with this descriptor is not here any more."""
        os.unlink(descriptor)

    def _write_aside(self, entry: Entry, data: bytes | memoryview) -> None:
        temporary = self._path(f"{self._partial}/{next(self._numbers)}.new")
        handle = _open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_all(handle, data)
            self._set_attributes(handle, entry)
        finally:
            os.close(handle)
        self._move(temporary, entry)

    def _write_link(self, entry: Entry, target: str) -> None:
        """A symbolic link. What is there already may make its target lead out of the destination."""
        folder = os.path.realpath(self._path(entry.name.rpartition("/")[0]))
        if not is_within(os.path.realpath(self._top), os.path.realpath(os.path.join(folder, target))):
            raise UnsafePath(entry.name, target, "a way out of the destination")
        temporary = self._path(f"{self._partial}/{next(self._numbers)}.new")
        os.symlink(target, temporary)
        os.utime(temporary, ns=(entry.mtime, entry.mtime), follow_symlinks=False)
        os.replace(temporary, self._path(entry.name))

    def partial(self, entry: Entry) -> BinaryIO:
        """The file in which a large one grows, at its beginning."""
        path = self._growing(entry)
        try:
            handle = _open_own(path, os.O_RDWR | os.O_CREAT)
        except PermissionError:  # it has its last mode already, and is one that nobody may write to
            os.unlink(path)
            handle = _open_own(path, os.O_RDWR | os.O_CREAT)
        return open(handle, "r+b", buffering=0)

    def _growing(self, entry: Entry) -> str:
        return self._path(f"{self._partial}/{entry.hash}-{blake3(entry.name.encode()).hexdigest()[:8]}")

    def place(self, entry: Entry, file: BinaryIO) -> None:
        """Give a large file, which is whole and right, its name."""
        self._set_attributes(file.fileno(), entry)
        self._move(self._growing(entry), entry)

    def _set_attributes(self, handle: int, entry: Entry) -> None:
        os.fchmod(handle, _mode(entry))
        os.utime(handle, ns=(entry.mtime, entry.mtime))

    def _move(self, temporary: str, entry: Entry) -> None:
        above = entry.name.rpartition("/")[0]
        self._make(above)
        os.replace(temporary, self._path(entry.name))

    def _path(self, name: str) -> str:
        return f"{self._top}/{name}"

    def _make(self, folder: str) -> None:
        """Make a folder and those above it. What is there in their place must be real folders."""
        if folder in self._safe:
            return
        with self._lock:
            self._check_above(f"{folder}/", make=True)

    def _check_above(self, name: str, *, make: bool = False) -> None:
        end = name.find("/")
        while end > 0:
            folder = name[:end]
            if folder not in self._safe:
                try:
                    status = os.lstat(self._path(folder))
                except FileNotFoundError:
                    if not make:
                        return
                    os.mkdir(self._path(folder))
                else:
                    if not stat.S_ISDIR(status.st_mode):
                        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a folder"
                        raise UnsafePath(name.rstrip("/"), folder, kind)
                    self._open_to_owner(folder, status)
                self._safe.add(folder)
            end = name.find("/", end + 1)

    def _open_to_owner(self, folder: str, status: os.stat_result) -> None:
        """Let us write into a folder of ours that was there before, until the end."""
        mode = stat.S_IMODE(status.st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU and status.st_uid == os.geteuid():
            os.chmod(self._path(folder), mode | stat.S_IRWXU)
            self._modes[folder] = mode


def _open_own(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file of our own. Whoever shares the destination may have put a link in its place."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _open_readable(path: str, flags: int) -> int:
    """The same for one that others may read, as their umask says."""
    return _open_own(path, flags, 0o666)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """All of it: the system may take less than it is given."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def _mode(entry: Entry) -> int:
    """The permissions of a file."""
    return entry.mode & _PERMISSIONS


def _is_same(path: str, entry: Entry) -> bool:
    """Whether what an entry stands for is at a path. Its content is read."""
    status = os.lstat(path)
    if entry.link is not None:
        return stat.S_ISLNK(status.st_mode) and os.readlink(path) == entry.link
    if entry.is_folder:
        return stat.S_ISDIR(status.st_mode)
    return stat.S_ISREG(status.st_mode) and status.st_size == entry.size and _hash(path) == entry.hash


def _hash(path: str) -> str:
    whole = blake3()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(1 << 20):
            whole.update(data)
    return whole.hexdigest()
