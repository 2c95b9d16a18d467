"""A bundle as files in a folder.

    {destination}/.datamon/partial/{bundle}/    while it is under way: an interrupted download goes on from here
    {destination}/.datamon/{bundle}.yaml        the bundle's descriptor, written last

A file gets its name only when its bytes have the right hash, so what stands under a name is whole. Until then a
small one has no name at all, where the file system knows such files, and a large one grows in `partial`. The
rules for names are applied again to what the lists say, whoever wrote them: no list can make a file appear
outside the destination, not even through a link that is there already.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from blake3 import blake3

from datamon import descriptors, keys
from datamon.content import AHEAD, Root, Span, get_span, read_large, read_root, read_span, read_verified, spans
from datamon.errors import CorruptFile, CorruptObject, DestinationInUse, Failed, NotFound, UnsafePath, quoted, why
from datamon.filelist import FileList
from datamon.listing import in_order
from datamon.model import Bundle, Entry, ListInfo, Split
from datamon.names import EVERYTHING, NameRange, flaw, just, order
from datamon.stores import Context, ObjectStore

FILES_AT_ONCE = 4  # large ones
REQUESTS_AT_ONCE = 8
OWN = ".datamon"
ELSEWHERE = "choose another one"
_HASH = re.compile(r"[0-9a-f]{64}")
_NO_BYTES = blake3().hexdigest()
_PERMISSIONS = 0o777  # what a list may give a file: never the rights of its owner to whoever runs it
_MAX_STORED_NAME = 4096  # what lost is filed below a folder and a split id, so it may be longer than an uploaded name

Progress = Callable[[int, int], None]
"""Called with (files, bytes) as they are done."""


def unseen(files: int, bytes: int) -> None:
    """Nobody is looking."""


def bundle_entries(
    context: Context, bundle: Bundle, names: NameRange = EVERYTHING, skipping: Collection[str] = ()
) -> Iterator[Entry]:
    """The entries of a bundle in a range of names, in name order, but for lists with a digest that is to be skipped."""

    def opened(info: ListInfo) -> Iterator[Entry]:
        key = keys.bundle_files(bundle.repo, bundle.id, info.index)
        yield from FileList.stored(context.metadata, key, info).entries(names)

    lists = (info for info in bundle.lists if info.digest not in skipping)
    met = [info for info in lists if names.meets(order(info.first), order(info.last))]
    return in_order([(info, opened(info)) for info in met], lambda entry: entry.name)


def split_entries(context: Context, split: Split, names: NameRange = EVERYTHING) -> Iterator[Entry]:
    """The entries of a split in a range of names, in name order, as far as it has recorded them."""
    for info in split.lists:
        if names.meets(order(info.first), order(info.last)):
            key = keys.split_files(split.repo, split.diamond, split.id, info.index)
            yield from FileList.stored(context.vmetadata, key, info).entries(names)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files of a bundle: those in a range of names that pass a filter."""

    names: NameRange = EVERYTHING
    passes: Callable[[str], Any] = lambda _: True

    def entries(self, context: Context, bundle: Bundle) -> Iterator[Entry]:
        """Those files. A name that the rules forbid is refused, whoever wrote the list."""
        for entry in bundle_entries(context, bundle, self.names):
            if self.passes(entry.name):
                wrong = _wrong(entry)
                if wrong is not None:
                    raise CorruptObject(keys.bundle(bundle.repo, bundle.id), f"it lists {entry.name!r}, but {wrong}")
                yield entry


def _wrong(entry: Entry) -> str | None:
    """Why an entry cannot be trusted to lead to one file of the destination and to objects of the store."""
    if entry.name.split("/")[0] == OWN:
        return "it would stand among datamon's own files"
    pack, offset = entry.at if entry.at is not None else (None, 0)
    if not all(_HASH.fullmatch(digest) for digest in (entry.hash, entry.root, pack) if digest is not None):
        return "its hash is none"
    if not all(0 <= number < 1 << 62 for number in (entry.size, entry.mode, offset)) or abs(entry.mtime) >= 1 << 70:
        return "one of its numbers cannot be"
    if pack is None and entry.root is None and (entry.size or entry.hash != _NO_BYTES):
        return "does not say where its bytes are"
    return flaw(entry.name, _MAX_STORED_NAME)  # how long a part may be, its file system says


@dataclass(slots=True)
class Fetched:
    """What a download did. `kept` counts files that were there already, from an earlier one."""

    files: int = 0
    bytes: int = 0
    kept: int = 0


def download(
    context: Context,
    bundle: Bundle,
    destination: Path,
    wanted: Wanted | None = None,
    *,
    force: bool = False,
    progress: Progress = unseen,
) -> Fetched:
    """Write files of a bundle below a folder that is empty, not there yet, or holds the same download half done.

    With `force` the folder may hold anything: the bundle's files take their places, all others stay.
    """
    try:
        with _Folder(destination, bundle).claimed(force=force) as (folder, looks):
            fetch = _Fetch(context.blob, folder, progress, looks=looks)
            fetched = fetch.run((wanted or Wanted()).entries(context, bundle))
            folder.release(descriptors.dump(bundle))
    except OSError as error:
        raise Failed(f"cannot write to {quoted(str(destination))}: {why(error)}") from error
    return fetched


def cat(context: Context, bundle: Bundle, name: str, out: BinaryIO) -> Entry:
    """Write one file of a bundle to a stream. Not a byte leaves before it is verified."""
    entry = find(context, bundle, name)
    if entry.at is not None:
        pack, offset = entry.at
        span = Span(pack, offset, offset + entry.size, [entry])
        for _, content in read_span(span, get_span(span, context.blob)):
            if isinstance(content, CorruptFile):
                raise content
            out.write(content)
        return entry
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        for data in read_verified(entry, read_root(entry, context.blob), context.blob, threads):
            out.write(data)
    return entry


def find(context: Context, bundle: Bundle, name: str) -> Entry:
    """One file of a bundle."""
    for entry in Wanted(just(order(name))).entries(context, bundle):
        return entry
    raise NotFound("file", name, f"`datamon bundle list files --repo {bundle.repo} --bundle {bundle.id}` shows all")


class _Fetch:
    """One download, on a few threads.

    A file whose content is damaged is left out, and told at the end; any other failure ends it.
    """

    def __init__(self, blob: ObjectStore, folder: _Folder, progress: Progress, *, looks: bool) -> None:
        self._blob, self._folder, self._progress, self._looks = blob, folder, progress, looks
        self._fetched = Fetched()
        self._damaged: list[CorruptFile] = []
        self._ended = threading.Event()
        self._packs: deque[tuple[Span, Future[bytes | None]]] = deque()
        self._growing: set[Future[None]] = set()
        self._lock = threading.Lock()

    def run(self, entries: Iterable[Entry]) -> Fetched:
        """Fetch it all. Small files are written on this thread only: on several, each waits for Python's lock."""
        with self._threads():
            for what in spans(self._missing(entries)):
                if isinstance(what, Span):
                    self._packs.append((what, self._requests.submit(get_span, what, self._blob)))
                    self._unpack(leave=AHEAD)
                elif what.root is not None:
                    self._growing.add(self._files.submit(self._fetch_large, what))
                    self._await_files(leave=FILES_AT_ONCE)
                else:
                    self._folder.write(what, b"")
                    self._done(0)
            self._unpack(leave=0)
            self._await_files(leave=0)
        if self._damaged:
            first, *others = sorted(self._damaged, key=lambda error: order(error.name))
            raise CorruptFile(first.name, first.key, first.why, [error.name for error in others])
        return self._fetched

    @contextmanager
    def _threads(self) -> Iterator[None]:
        with ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="requests") as self._requests:
            self._files = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="files")
            try:
                yield
            finally:
                self._ended.set()  # what is under way ends soon
                self._files.shutdown(cancel_futures=True)

    def _unpack(self, leave: int) -> None:
        while len(self._packs) > leave:
            span, data = self._packs.popleft()
            files = size = 0
            for entry, content in read_span(span, data.result()):
                if isinstance(content, CorruptFile):
                    self._damaged.append(content)
                    continue
                self._folder.write(entry, content)
                files, size = files + 1, size + entry.size
            self._done(size, files=files)

    def _await_files(self, leave: int) -> None:
        while len(self._growing) > leave:
            landed, self._growing = wait(self._growing, return_when=FIRST_COMPLETED)
            for future in landed:
                future.result()

    def _missing(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self._looks and self._folder.has(entry):
                self._fetched.kept += 1
                self._done(entry.size)
            else:
                yield entry

    def _fetch_large(self, entry: Entry) -> None:
        try:
            self._grow(entry, read_root(entry, self._blob))
        except CorruptFile as error:
            self._damaged.append(error)

    def _grow(self, entry: Entry, root: Root) -> None:
        """Into a file that is named by the content, so that an interrupted download finds what it had."""
        with self._folder.partial(entry) as file:
            whole, skip = _whole_chunks(file, root)
            self._progress(0, file.tell())
            for data in read_large(entry, root, self._blob, self._requests, after=whole, skip=skip):
                if self._ended.is_set():
                    return
                _write(file.fileno(), data)
                self._progress(0, len(data))
            self._folder.place(entry, file)
        self._done(entry.size, told=entry.size)

    def _done(self, size: int, *, files: int = 1, told: int = 0) -> None:
        with self._lock:
            self._fetched.files += files
            self._fetched.bytes += size
        self._progress(files, size - told)


def _whole_chunks(file: BinaryIO, root: Root) -> tuple[Any, int]:
    """The hash and the number of the chunks that a file begins with; it is cut off and left open behind them."""
    whole, good, end = blake3(), 0, 0
    for chunk in root.chunks:
        data = file.read(root.chunk)
        if blake3(data).hexdigest() != chunk:
            break
        whole.update(data)
        good += 1
        end += len(data)
    file.seek(end)
    file.truncate()
    return whole, good


class _Folder:
    """The destination: who may write to it, and how a file gets its name."""

    def __init__(self, top: Path, bundle: Bundle) -> None:
        self._top, self._bundle = str(top), bundle
        self._partial = f"{OWN}/partial/{bundle.id}"
        self._safe: set[str] = {""}
        self._lock = threading.Lock()
        self._numbers = count()
        self._can_be_unnamed = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")

    @contextmanager
    def claimed(self, *, force: bool) -> Iterator[tuple[_Folder, bool]]:
        """Make it ours while the block runs, or refuse. Tells whether files of the bundle may be there already."""
        looks = self._claim(force=force)
        with open(self._path(f"{self._partial}/lock"), "ab", opener=_shared) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DestinationInUse(self._top, "is being filled by another process", ELSEWHERE) from None
            for name in os.listdir(self._path(self._partial)):
                if name.endswith(".new"):  # small files that were never finished
                    os.unlink(self._path(f"{self._partial}/{name}"))
            yield self, looks

    def _claim(self, *, force: bool) -> bool:
        if os.path.lexists(self._top) and not os.path.isdir(self._top):
            raise DestinationInUse(self._top, "is a file", ELSEWHERE)
        os.makedirs(self._top, exist_ok=True)
        ours = os.path.isdir(self._path(self._partial))
        empty = not os.listdir(self._top)
        if not (empty or ours or force):
            raise DestinationInUse(self._top)
        self._make(self._partial)
        return not empty

    def release(self, descriptor: bytes) -> None:
        """All is there."""
        done = self._path(f"{self._partial}/done")
        with open(done, "wb", opener=_shared) as file:
            file.write(descriptor)
        os.replace(done, self._path(f"{OWN}/{self._bundle.id}.yaml"))
        shutil.rmtree(self._path(self._partial))
        if not os.listdir(self._path(f"{OWN}/partial")):
            os.rmdir(self._path(f"{OWN}/partial"))

    def has(self, entry: Entry) -> bool:
        """Whether the very file is there. It is read, not trusted."""
        self._check_above(entry.name)
        path = self._path(entry.name)
        try:
            about = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISREG(about.st_mode) or about.st_size != entry.size or _hash(path) != entry.hash:
            return False
        os.chmod(path, entry.mode & _PERMISSIONS)
        os.utime(path, ns=(entry.mtime, entry.mtime))
        return True

    def write(self, entry: Entry, data: bytes | memoryview) -> None:
        """A whole small file."""
        above = entry.name.rpartition("/")[0]
        self._make(above)
        if not (self._can_be_unnamed and self._write_unnamed(entry, above, data)):
            self._write_aside(entry, data)

    def _write_unnamed(self, entry: Entry, above: str, data: bytes | memoryview) -> bool:
        """In the folder where it belongs, without a name until it is whole: quick, and nothing is left behind."""
        try:
            handle = os.open(self._path(above), os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError:
            self._can_be_unnamed = False  # this file system does not know the like
            return False
        try:
            _write(handle, data)
            self._dress(handle, entry)
            os.link(f"/proc/self/fd/{handle}", self._path(entry.name), src_dir_fd=handle, follow_symlinks=True)
        except FileExistsError:  # a link replaces nothing
            return False
        finally:
            os.close(handle)
        return True

    def _write_aside(self, entry: Entry, data: bytes | memoryview) -> None:
        temporary = self._path(f"{self._partial}/{next(self._numbers)}.new")
        handle = _no_link(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            _write(handle, data)
            self._dress(handle, entry)
        finally:
            os.close(handle)
        self._move(temporary, entry)

    def partial(self, entry: Entry) -> BinaryIO:
        """The file in which a large one grows, at its beginning."""
        path = self._growing(entry)
        try:
            handle = _no_link(path, os.O_RDWR | os.O_CREAT)
        except PermissionError:  # it has its last mode already, and is one that nobody may write to
            os.unlink(path)
            handle = _no_link(path, os.O_RDWR | os.O_CREAT)
        return open(handle, "r+b", buffering=0)

    def _growing(self, entry: Entry) -> str:
        return self._path(f"{self._partial}/{entry.hash}-{blake3(entry.name.encode()).hexdigest()[:8]}")

    def place(self, entry: Entry, file: BinaryIO) -> None:
        """Give a large file, which is whole and right, its name."""
        self._dress(file.fileno(), entry)
        self._move(self._growing(entry), entry)

    def _dress(self, handle: int, entry: Entry) -> None:
        os.fchmod(handle, entry.mode & _PERMISSIONS)
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
                    about = os.lstat(self._path(folder))
                except FileNotFoundError:
                    if not make:
                        return
                    os.mkdir(self._path(folder))
                else:
                    if not stat.S_ISDIR(about.st_mode):
                        kind = "a symbolic link" if stat.S_ISLNK(about.st_mode) else "no folder"
                        raise UnsafePath(name.rstrip("/"), folder, kind)
                self._safe.add(folder)
            end = name.find("/", end + 1)


def _no_link(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file of our own. Whoever shares the destination may have put a link in its place."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _shared(path: str, flags: int) -> int:
    """The same for one that others may read, as their umask says."""
    return _no_link(path, flags, 0o666)


def _write(handle: int, data: bytes | memoryview) -> None:
    """All of it: the system may take less than it is given."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def _hash(path: str) -> str:
    whole = blake3()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(1 << 20):
            whole.update(data)
    return whole.hexdigest()
