"""Putting the content of files into the store, and making the entries that lead back to it.

A task reads, hashes and compresses small files on its own thread, while others compress chunks and put what is ready:
what waits for them has at most MAX_WAITING_BYTES, however large the files and however many.
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

from datamon.content.chunking import cut
from datamon.content.compression import USUAL_LEVEL, Compressor
from datamon.content.deduplication import KnownContent
from datamon.content.entry import FRAME_BYTES, PACK_BYTES, Entry, FileInfo, Place, link_hash
from datamon.content.roots import Chunk, Root
from datamon.core.errors import AlreadyExists, CorruptObject, NotFound
from datamon.core.task_progress import ReportProgress
from datamon.stores import keys
from datamon.stores.protocol import ObjectStore

REQUESTS_AT_ONCE = 8  # for a task: enough to hide the round trips of chunks
MAX_WAITING_BYTES = 4 * PACK_BYTES  # that bound the memory of a task

Clock = Callable[[], int]


class ObjectWriter:
    """Puts objects on a few threads. Whoever brings more than they can put waits; the first failure is raised."""

    def __init__(self, blob: ObjectStore, report_progress: ReportProgress, level: int = USUAL_LEVEL) -> None:
        self._blob, self.report_progress = blob, report_progress
        self.compressor = Compressor(level)
        self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="put")
        self._in_flight: deque[tuple[Future[Any], int]] = deque()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._packs: dict[str, bool] = {}  # whether they are in the store
        self.stored = 0

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)

    def pack(self, data: bytes) -> tuple[str, Future[None]]:
        """Put a pack. Its digest is known at once."""
        digest = blake3(data).hexdigest()
        self._packs[digest] = True
        return digest, self._submit(partial(self._put, keys.pack(digest), data), len(data))

    def chunk(self, data: bytes) -> Future[Chunk]:
        """Put a chunk; the future gives its digest and size."""

        def put() -> Chunk:
            digest = blake3(data).hexdigest()
            if not self.has_chunk(digest):
                self._create(keys.chunk(digest), self.compressor.chunk(data))
            self.report_progress(0, len(data), 0)
            return Chunk(digest, len(data))

        return self._submit(put, len(data))

    def missing_chunk(self, chunk: Chunk, read: Callable[[], bytes]) -> Future[None]:
        """Put a chunk if it is missing. Only then it is read; who reads sees to it that it is that very chunk."""

        def put() -> None:
            if not self.has_chunk(chunk.digest):
                self._create(keys.chunk(chunk.digest), self.compressor.chunk(read()))
            self.report_progress(0, chunk.size, 0)

        return self._submit(put, chunk.size)

    def root(self, root: Root) -> tuple[str, Future[None]]:
        """Put a root."""
        body = root.yaml()
        digest = blake3(body).hexdigest()
        return digest, self._submit(partial(self._put, keys.root(digest), body), len(body))

    def has_chunk(self, digest: str) -> bool:
        """Whether a chunk is in the store."""
        return self._blob.exists(keys.chunk(digest))

    def has_pack(self, digest: str) -> bool:
        """Whether a pack is in the store, or is about to be. The store is asked once."""
        if digest not in self._packs:
            self._packs[digest] = self._blob.exists(keys.pack(digest))
        return self._packs[digest]

    def has_file(self, root: str) -> bool:
        """Whether a root is in the store, and all chunks that it lists."""
        key = keys.root(root)
        try:
            body = self._blob.get(key)
            chunks = {chunk.digest for chunk in Root.read(key, body).chunks}
        except (NotFound, CorruptObject):
            return False
        return blake3(body).hexdigest() == root and all(self._pool.map(self.has_chunk, chunks))

    def _submit(self, put: Callable[[], Any], size: int) -> Future[Any]:
        while self._in_flight and (
            len(self._in_flight) >= 2 * REQUESTS_AT_ONCE or self._waiting_bytes + size > MAX_WAITING_BYTES
        ):
            done, done_size = self._in_flight.popleft()
            done.result()
            self._waiting_bytes -= done_size
        future = self._pool.submit(put)
        self._in_flight.append((future, size))
        self._waiting_bytes += size
        return future

    def _put(self, key: str, body: bytes) -> None:
        if not self._blob.exists(key):
            self._create(key, body)

    def _create(self, key: str, body: bytes) -> None:
        try:
            self._blob.create(key, body)
        except AlreadyExists:
            return  # somebody else stored the same bytes in the meantime
        with self._lock:
            self.stored += len(body)
        self.report_progress(0, 0, len(body))


@dataclass(slots=True)
class _Waiting:
    """A file whose pack is not in the store yet."""

    position: int  # among the entries
    file: FileInfo
    digest: str


@dataclass(slots=True)
class _Pack:
    """A pack being filled: its bytes so far, where each content lies in it, and the files that wait for it.

    Small files gather in a frame first, which then is added compressed or, if that is not worth it, as it is.
    """

    size: int = 0
    data: list[bytes] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)  # by digest; the pack has no name yet
    waiting: list[_Waiting] = field(default_factory=list)
    frame: list[bytes] = field(default_factory=list)
    frame_size: int = 0
    frame_offsets: dict[str, int] = field(default_factory=dict)

    def holds(self, digest: str) -> bool:
        """Whether this content is in it already."""
        return digest in self.frame_offsets or digest in self.places

    def add(self, digest: str, data: bytes) -> None:
        """Add the content of a file to the open frame."""
        self.frame_offsets[digest] = self.frame_size
        self.frame.append(data)
        self.frame_size += len(data)

    def end_frame(self, compressor: Compressor) -> None:
        """Add the open frame to the pack."""
        whole = b"".join(self.frame)
        compressed = compressor.compress(whole)
        for digest, offset in self.frame_offsets.items():
            if compressed is not None:
                self.places[digest] = Place("", offset, self.size, len(compressed))
            else:
                self.places[digest] = Place("", self.size + offset)
        self.data.append(compressed or whole)
        self.size += len(self.data[-1])
        self.frame, self.frame_size, self.frame_offsets = [], 0, {}


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
        is_new = not pack.holds(digest)
        place = self._known_place(digest) if data and is_new else None
        if not data or place is not None:
            self.add_stored(file, digest, place)
            return
        if is_new:
            pack.add(digest, data)
        pack.waiting.append(_Waiting(len(self._entries), file, digest))
        self._entries.append(None)
        if pack.frame_size >= FRAME_BYTES:
            pack.end_frame(self._objects.compressor)
        if pack.size >= PACK_BYTES:
            self._seal()

    def _known_place(self, digest: str) -> Place | None:
        place = self._known.get(digest)
        return place if place is not None and self._objects.has_pack(place.pack) else None

    def add_stored(self, file: FileInfo, digest: str, at: Place | None = None, root: str | None = None) -> None:
        """A file whose bytes are in the store already, or that has none."""
        self._entries.append(self._entry(file, digest, at, root))
        self._objects.report_progress(1, file.size, 0)

    def add_link(self, file: FileInfo, target: str) -> None:
        """A symbolic link. All of it is in its entry."""
        now = self._clock()
        self._entries.append(Entry(file.name, link_hash(target), 0, file.mode, file.mtime, now, link=target))
        self._objects.report_progress(1, 0, 0)

    def add_large(self, file: FileInfo, pieces: Iterable[bytes]) -> None:
        """A file in chunks of its own."""
        whole, chunks = blake3(), []
        for data in cut(pieces):
            chunks.append(self._objects.chunk(data))
            whole.update(data)
        self.add_cut(file, whole.hexdigest(), Root([chunk.result() for chunk in chunks]))

    def add_cut(self, file: FileInfo, digest: str, root: Root) -> None:
        """A file whose chunks are stored."""
        name, stored = self._objects.root(root)
        position = len(self._entries)
        self._entries.append(None)

        def enter() -> None:
            self._entries[position] = self._entry(file, digest, root=name)
            self._objects.report_progress(1, 0, 0)

        self._pending.append((stored, enter))

    def finish(self) -> list[Entry]:
        """Wait until everything is stored; gives the entries."""
        self._seal()
        self._complete(len(self._pending))
        return [entry for entry in self._entries if entry is not None]

    def _seal(self) -> None:
        pack, self._pack = self._pack, _Pack()
        if pack.frame:
            pack.end_frame(self._objects.compressor)
        if not pack.data:
            return
        digest, stored = self._objects.pack(b"".join(pack.data))
        pack.data = []
        places = {content: place._replace(pack=digest) for content, place in pack.places.items()}
        for content, place in places.items():
            self._known.add(content, place)

        def enter() -> None:
            now = self._clock()
            for one in pack.waiting:
                self._entries[one.position] = self._entry(one.file, one.digest, places[one.digest], now=now)
            self._objects.report_progress(len(pack.waiting), sum(one.file.size for one in pack.waiting), 0)

        self._pending.append((stored, enter))
        self._complete(len(self._pending) - REQUESTS_AT_ONCE)

    def _complete(self, count: int) -> None:
        for _ in range(count):
            stored, enter = self._pending.popleft()
            stored.result()
            enter()

    def _entry(
        self, file: FileInfo, digest: str, at: Place | None = None, root: str | None = None, now: int = 0
    ) -> Entry:
        return Entry(file.name, digest, file.size, file.mode, file.mtime, now or self._clock(), at, root)
