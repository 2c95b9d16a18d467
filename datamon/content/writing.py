"""Putting the content of files into the store, and making the entries that lead back to it.

A task reads and hashes on its own thread while a few others put what is ready: at most REQUESTS_AT_ONCE + 1 packs or
chunks are in memory, however large the files and however many.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from blake3 import blake3

from datamon.content.deduplication import KnownContent
from datamon.content.entry import PACK_BYTES, Entry, FileInfo, Place
from datamon.content.roots import root_yaml
from datamon.core.errors import AlreadyExists, SourceChanged
from datamon.core.task_progress import ReportProgress
from datamon.stores import keys
from datamon.stores.protocol import ObjectStore

REQUESTS_AT_ONCE = 4  # for a task: enough to hide a round trip, few enough to bound memory

Clock = Callable[[], int]


class ObjectWriter:
    """Puts objects on a few threads. Whoever brings more than they can put waits; the first failure is raised."""

    def __init__(self, blob: ObjectStore, report_progress: ReportProgress) -> None:
        self._blob, self.report_progress = blob, report_progress
        self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="put")
        self._in_flight: deque[Future[Any]] = deque()
        self._lock = threading.Lock()
        self.stored = 0

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)

    def pack(self, data: bytes) -> tuple[str, Future[None]]:
        """Put a pack. Its digest is known at once."""
        digest = blake3(data).hexdigest()
        return digest, self._submit(partial(self._put, keys.pack(digest), data))

    def chunk(self, data: bytes) -> Future[str]:
        """Put a chunk; the future gives its digest."""

        def put() -> str:
            digest = blake3(data).hexdigest()
            self._put(keys.chunk(digest), data)
            self.report_progress(0, len(data), 0)
            return digest

        return self._submit(put)

    def root(self, body: bytes) -> tuple[str, Future[None]]:
        """Put a root."""
        digest = blake3(body).hexdigest()
        return digest, self._submit(partial(self._put, keys.root(digest), body))

    def _submit(self, put: Callable[[], Any]) -> Future[Any]:
        while len(self._in_flight) >= REQUESTS_AT_ONCE:
            self._in_flight.popleft().result()
        future = self._pool.submit(put)
        self._in_flight.append(future)
        return future

    def _put(self, key: str, body: bytes) -> None:
        if self._blob.exists(key):
            return
        try:
            self._blob.create(key, body)
        except AlreadyExists:
            return  # somebody else stored the same bytes in the meantime
        with self._lock:
            self.stored += len(body)
        self.report_progress(0, 0, len(body))


@dataclass(slots=True)
class _Pack:
    """A pack being filled: its bytes so far, what lies where in it, and the files that wait for it."""

    size: int = 0
    data: list[bytes] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[int, FileInfo, str, int]] = field(default_factory=list)  # position, file, digest, offset


class ContentWriter:
    """Turns files into entries, in the order they come: into packs if small, into chunks if large.

    The timestamp of an entry is when its content was in the store, so the entry is made only then.
    """

    def __init__(self, objects: ObjectWriter, known: KnownContent, clock: Clock) -> None:
        self._objects, self._known, self._clock = objects, known, clock
        self._entries: list[Entry | None] = []
        self._pack = _Pack()
        self._pending: deque[tuple[Future[None], Callable[[], None]]] = deque()  # what to do once something is stored

    def add_small(self, file: FileInfo, data: bytes) -> None:
        """A file that shares a pack with others, unless its bytes lie somewhere already."""
        digest = blake3(data).hexdigest()
        pack = self._pack
        offset = pack.offsets.get(digest)
        place = self._known.get(digest) if data and offset is None else None
        if not data or place is not None:
            self._entries.append(self._entry(file, digest, place))
            self._objects.report_progress(1, file.size, 0)
            return
        if offset is None:
            offset = pack.offsets[digest] = pack.size
            pack.data.append(data)
            pack.size += len(data)
        pack.waiting.append((len(self._entries), file, digest, offset))
        self._entries.append(None)
        if pack.size >= PACK_BYTES:
            self._seal()

    def add_large(self, file: FileInfo, pieces: Iterable[bytes]) -> None:
        """A file in chunks of its own."""
        whole, chunks = blake3(), []
        for data in pieces:
            chunks.append(self._objects.chunk(data))
            whole.update(data)
        self._add_root(file, whole.hexdigest(), [chunk.result() for chunk in chunks])

    def add_sliced(self, file: FileInfo, pieces: Iterable[bytes], chunks: Callable[[], list[str]]) -> None:
        """A file whose chunks are stored already. It is read once more, for its hash, and to see it is the same."""
        whole = blake3()
        stored: list[str] = []
        for number, data in enumerate(pieces):
            stored = stored or chunks()
            if blake3(data).hexdigest() != stored[number]:
                raise SourceChanged(file.name)
            whole.update(data)
        self._add_root(file, whole.hexdigest(), stored)

    def finish(self) -> list[Entry]:
        """Wait until everything is stored; gives the entries."""
        if self._pack.data:
            self._seal()
        self._complete(len(self._pending))
        return [entry for entry in self._entries if entry is not None]

    def _seal(self) -> None:
        pack, self._pack = self._pack, _Pack()
        digest, stored = self._objects.pack(b"".join(pack.data))
        for content, offset in pack.offsets.items():
            self._known.add(content, (digest, offset))

        def enter() -> None:
            now = self._clock()
            for position, file, content, offset in pack.waiting:
                self._entries[position] = self._entry(file, content, (digest, offset), now=now)
            self._objects.report_progress(len(pack.waiting), sum(one[1].size for one in pack.waiting), 0)

        pack.data = []
        self._pending.append((stored, enter))
        self._complete(len(self._pending) - REQUESTS_AT_ONCE)

    def _add_root(self, file: FileInfo, digest: str, chunks: list[str]) -> None:
        root, stored = self._objects.root(root_yaml(file.size, chunks))
        position = len(self._entries)
        self._entries.append(None)

        def enter() -> None:
            self._entries[position] = self._entry(file, digest, root=root)
            self._objects.report_progress(1, 0, 0)

        self._pending.append((stored, enter))

    def _complete(self, count: int) -> None:
        for _ in range(count):
            stored, enter = self._pending.popleft()
            stored.result()
            enter()

    def _entry(
        self, file: FileInfo, digest: str, at: Place | None = None, root: str | None = None, now: int = 0
    ) -> Entry:
        return Entry(file.name, digest, file.size, file.mode, file.mtime, now or self._clock(), at, root)
