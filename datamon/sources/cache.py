"""What this host remembers of files that it has uploaded, so that it need not read them again: hash and place of each.

A file is taken for unchanged if it has the same path, inode, device, size, mtime and ctime. A program can set mtime,
but not ctime. What makes that safe:

- Remembered are only files whose ctime was older than RACY_SECONDS when they were looked at: a file that is written
  twice within a tick of its file system's clock has the same ctime both times.
- Remembered are only files that looked the same before and after they were read.
- File systems are trusted only if they are known to keep a ctime of their own, and to be writable: an image that is
  mounted read-only may be replaced by another one with the same times and inodes.
- A file system that other hosts write to may show old times for a while, but not for a file that has just been opened.
- Each row has a checksum, so a damaged cache forgets and does not lie.
- Whoever uses the cache sees to it that the store still has the content.

It is one SQLite file for each store, and is never the only truth: it can be deleted at any time.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

import msgspec
import xxhash

from datamon.content.entry import Entry, Place
from datamon.core.names import NameRange, sort_key
from datamon.sources.tree import SourceFile

RACY_SECONDS = 2  # the coarsest clock of a file system that is trusted ticks once a second
PATIENCE_SECONDS = 5  # until a cache that others write to is left alone
MAX_BYTES = 4 << 30  # about 15 million files; a cache that has more begins anew
_LOCAL = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "tmpfs", "xfs", "zfs")
_OVERLAY = "overlay"  # as good as the file system of its upper layer, if there is one
_SHARED = ("ceph", "gfs2", "lustre", "nfs", "nfs4", "ocfs2")
_CHECKSUM = 8  # bytes


class Trust(Enum):
    """What the times of a file system are worth."""

    NONE = auto()
    LOCAL = auto()  # they show every change
    SHARED = auto()  # so they do, of a file that is opened


_TRUST = dict.fromkeys(_LOCAL, Trust.LOCAL) | dict.fromkeys(_SHARED, Trust.SHARED)


class KnownFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a file looked like, and where its content is."""

    inode: int
    device: int
    size: int
    mtime: int
    changed: int
    hash: str
    at: Place | None = None
    root: str | None = None

    def is_of(self, file: SourceFile) -> bool:
        """Whether the file still looks like that."""
        return (self.inode, self.device, self.size, self.mtime, self.changed) == (
            file.inode,
            file.device,
            file.size,
            file.mtime,
            file.changed,
        )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KnownFile).decode


class FileCache:
    """The cache, for one run of names of one source. A cache that cannot be used is empty, and remembers nothing."""

    def __init__(self, path: str, top: str, looked_at: int) -> None:
        """`path`: of the SQLite file; none, if there is no path. `top`: the folder that is uploaded, without links.

        `looked_at`: a time, in ns, before the files were looked at.
        """
        self._path, self._top = path, top.rstrip("/")
        self._database = self._opened() if path else None
        self._trusted: dict[int, Trust] = {}  # by device
        self._mounts: list[bytes] | None = None
        self._looked_at = looked_at

    def unchanged(self, files: Iterable[SourceFile], names: NameRange) -> dict[str, KnownFile]:
        """By name, what is known of the files that have not changed."""
        if self._database is None:
            return {}
        files = list(files)
        rows = self._rows(names, {self._key(sort_key(file.name)) for file in files})
        return {
            file.name: row
            for file in files
            if (row := rows.get(file.name)) is not None and row.is_of(file) and self._is_fresh(file)
        }

    def remember(self, files: Iterable[SourceFile], entries: Iterable[Entry]) -> None:
        """Remember files that were uploaded, those of them that can be trusted to look different if they change."""
        listed = {entry.name: entry for entry in entries}
        racy = self._looked_at - RACY_SECONDS * 10**9
        if self._database is None:
            return
        rows = [
            self._encoded(file, listed[file.name])
            for file in files
            if file.inode and file.size and file.changed < racy and file.name in listed
            if (trust := self._trust(file)) is not Trust.NONE
            if _looks_the_same(file, opened=trust is Trust.SHARED)
        ]
        if rows:
            self._try(lambda database: database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", rows))

    def close(self) -> None:
        """Let go of the file."""
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()

    def _key(self, key: str) -> bytes:
        return f"{sort_key(self._top)}\0{key}".encode(errors="surrogateescape")

    def _encoded(self, file: SourceFile, entry: Entry) -> tuple[bytes, bytes]:
        key = self._key(sort_key(file.name))
        row = _encode(
            KnownFile(file.inode, file.device, file.size, file.mtime, file.changed, entry.hash, entry.at, entry.root)
        )
        return key, _checksum(key, row) + row

    def _rows(self, names: NameRange, wanted: set[bytes]) -> dict[str, KnownFile]:
        """What is known of the files with these keys. What else is in the range of names is passed over."""
        start, prefix = self._key(names.start), len(self._key(""))
        stop = self._key(names.stop) if names.stop is not None else self._key("")[:-1] + b"\1"
        rows: dict[str, KnownFile] = {}

        def read(database: sqlite3.Connection) -> None:
            found = database.execute("SELECT key, value FROM files WHERE key >= ? AND key < ?", (start, stop))
            for key, value in found:
                if key in wanted and _checksum(key, value[_CHECKSUM:]) == value[:_CHECKSUM]:
                    rows[key[prefix:].decode().replace("\0", "/")] = _decode(value[_CHECKSUM:])

        self._try(read)
        return rows

    def _opened(self) -> sqlite3.Connection | None:
        try:
            Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.path.exists(self._path) and os.path.getsize(self._path) > MAX_BYTES:
                self._forget_all()
            return self._connected()
        except sqlite3.OperationalError:  # a full disk, a file system without locks
            return None
        except sqlite3.DatabaseError:
            self._forget_all()
        except OSError:
            return None
        with suppress(sqlite3.Error):
            return self._connected()
        return None

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=PATIENCE_SECONDS, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=OFF")  # after a loss of power the rows' checksums say what is good
            database.execute("CREATE TABLE IF NOT EXISTS files (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _try(self, act: Callable[[sqlite3.Connection], object]) -> None:
        """Use the database. If it turns out to be damaged, it goes; if others keep it busy, this time goes without."""
        database = self._database
        assert database is not None
        try:
            database.execute("BEGIN")
            act(database)
            database.execute("COMMIT")
        except sqlite3.OperationalError:
            self._give_up()
        except (sqlite3.DatabaseError, msgspec.DecodeError, UnicodeDecodeError, IndexError, TypeError):
            self._give_up()
            self._forget_all()

    def _is_fresh(self, file: SourceFile) -> bool:
        """Whether what was seen of a file is of now, and not what this host knew before."""
        return self._trust(file) is Trust.LOCAL or _looks_the_same(file, opened=True)

    def _trust(self, file: SourceFile) -> Trust:
        """What the times of the file system are worth that a file lies in."""
        known = self._trusted.get(file.device)
        if known is None:
            if self._mounts is None:
                self._mounts = _mounts()
            known = self._trusted[file.device] = trust_in(os.path.realpath(file.path), self._mounts)
        return known

    def _give_up(self) -> None:
        self.close()
        self._database = None

    def _forget_all(self) -> None:
        for name in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self._path + name)


def _checksum(key: bytes, row: bytes) -> bytes:
    return xxhash.xxh3_64_digest(key + row)


def _looks_the_same(file: SourceFile, *, opened: bool) -> bool:
    """Whether a file still looks as it did. A file system of many hosts looks anew if it is opened."""
    try:
        status = _opened_status(file.path) if opened else os.stat(file.path)
    except OSError:
        return False
    return (status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (
        file.inode,
        file.device,
        file.size,
        file.mtime,
        file.changed,
    )


def _opened_status(path: str) -> os.stat_result:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def _mounts() -> list[bytes]:
    """What is mounted where, as /proc/self/mountinfo says it. Where there is no such file, nothing is trusted."""
    try:
        return Path("/proc/self/mountinfo").read_bytes().split(b"\n")
    except OSError:
        return []


def trust_in(path: str, mounts: Iterable[bytes]) -> Trust:
    """What the times of the file system are worth that a path lies in; the lines are those of /proc/self/mountinfo."""
    below, best, trust = os.fsencode(path) + b"/", b"", Trust.NONE
    for line in mounts:
        before, _, after = line.partition(b" - ")
        fields, kind = before.split(b" "), after.split(b" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        point = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), fields[4]).rstrip(b"/") + b"/"
        if len(point) >= len(best) and below.startswith(point):
            best, trust = point, _trust_in_kind(kind[0].decode(errors="replace"), kind[-1].split(b","))
    return trust


def _trust_in_kind(kind: str, options: list[bytes]) -> Trust:
    if b"ro" in options:
        return Trust.NONE
    if kind == _OVERLAY:
        return Trust.LOCAL if any(one.startswith(b"upperdir=") for one in options) else Trust.NONE
    return _TRUST.get(kind, Trust.NONE)
