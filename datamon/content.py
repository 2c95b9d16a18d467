"""Content: how the bytes of files lie in the store, and the way there and back.

    small files   packs/{xx}/{blake3}    file || file || file …       about PACK_BYTES, in name order
    large files   chunks/{xx}/{blake3}   CHUNK_BYTES, the last one shorter
                  roots/{xx}/{blake3}    YAML: the file's chunks in order
    empty files   nothing

Every object is named by the BLAKE3 of its bytes, so putting it twice stores it once. The order of writes is
content, then the file list that points to it: a list never names what is not there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from blake3 import blake3

from datamon import keys
from datamon.errors import AlreadyExists, CorruptFile, NotFound, SourceChanged, SourceUnreadable, why
from datamon.filelist import FileList, ListWriter
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import Entry, ListInfo
from datamon.plan import Found, OnUnfit, Part, Skips, Source, walk
from datamon.stores import Context, ObjectStore

SMALL_BYTES = 4 << 20  # from here on a file is worth objects of its own
PACK_BYTES = 32 << 20  # one PUT stays under a second at 50 MB/s
CHUNK_BYTES = 16 << 20  # what a failed request costs to send again

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PartReport:
    """What one upload task did. `info` is None where nothing of the part could be uploaded."""

    info: ListInfo | None
    stored: int = 0
    resumed: bool = False

    @property
    def files(self) -> int:
        """How many files are in the store now."""
        return self.info.count if self.info else 0

    @property
    def bytes(self) -> int:
        """How many bytes these files have."""
        return self.info.bytes if self.info else 0


@dataclass(frozen=True, slots=True)
class Upload:
    """What all tasks of an upload share."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    plan: str  # the plan's digest
    source: Source
    context: Context


def upload_part(part: Part, upload: Upload, clock: Clock = time.time_ns) -> PartReport:
    """Store the files of a part, and then their list. A part whose list is there was done before."""
    index = keys.split_index(upload.generation, upload.plan, part.number)
    key = keys.split_files(upload.repo, upload.diamond, upload.split, index)
    source, lists = upload.source, upload.context.vmetadata
    done = _written_before(lists, index, key)
    if done is not None:
        return done
    skips = Skips(source)
    uploader = _Uploader(upload.context.blob, clock)
    for found in _as_planned(part, source):
        with _unreadable(found, skips):
            uploader.add(found)
    uploader.finish()
    writer = ListWriter()
    for entry in uploader.entries:
        writer.add(entry, uploader.packs)
    if not len(writer):
        return PartReport(None, uploader.stored)
    body, info = writer.seal(index)
    try:
        lists.create(key, body)
    except AlreadyExists:  # another run of this very part was faster; its times count
        info = FileList(key, lists.get(key)).info(index)
    return PartReport(info, uploader.stored)


def _written_before(lists: ObjectStore, index: str, key: str) -> PartReport | None:
    try:
        body = lists.get(key)
    except NotFound:
        return None
    return PartReport(FileList(key, body).info(index), resumed=True)


def _as_planned(part: Part, source: Source) -> list[Found]:
    """The files of a part, seen to be those that were planned."""
    found = list(walk(source, part.names, Skips(source)))
    if sum(one.fingerprint for one in found) % (1 << 128) != part.fingerprint:
        raise SourceChanged(found[0].name if len(found) == 1 else source.path)
    return found


@contextmanager
def _unreadable(found: Found, on_unfit: OnUnfit) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceChanged(found.name) from None
    except PermissionError as error:
        on_unfit(SourceUnreadable(found.path, why(error)))
    except OSError as error:
        raise SourceUnreadable(found.path, why(error)) from error


class _Uploader:
    """Puts files into packs and chunks. Entries keep the order in which the files came."""

    def __init__(self, blob: ObjectStore, clock: Clock) -> None:
        self._blob, self._clock = blob, clock
        self._slots: list[Entry | None] = []
        self._pack = bytearray()
        self._waiting: list[tuple[int, Found, str, int]] = []  # slot, file, hash, offset in the pack being filled
        self._placed: dict[str, tuple[int, int]] = {}  # where a hash already lies
        self._filling: dict[str, int] = {}  # the same for the pack being filled
        self.packs: list[str] = []
        self.stored = 0

    @property
    def entries(self) -> list[Entry]:
        return [entry for entry in self._slots if entry is not None]

    def add(self, found: Found) -> None:
        with open(found.path, "rb") as file:
            if found.size < SMALL_BYTES:
                self._add_small(found, self._read_small(found, file))
            else:
                self._add_large(found, file)

    def finish(self) -> None:
        if self._pack:
            pack = blake3(self._pack).hexdigest()
            self._store(keys.pack(pack), bytes(self._pack))
            self.packs.append(pack)
        for slot, found, digest, offset in self._waiting:
            self._placed[digest] = at = (len(self.packs) - 1, offset)
            self._slots[slot] = self._entry(found, digest, at=at)
        self._pack, self._waiting, self._filling = bytearray(), [], {}

    def _read_small(self, found: Found, file: BinaryIO) -> bytes:
        data = file.read(SMALL_BYTES)
        self._check_unchanged(found, file, len(data))
        return data

    def _add_small(self, found: Found, data: bytes) -> None:
        digest = blake3(data).hexdigest()
        if not data or digest in self._placed:
            self._slots.append(self._entry(found, digest, at=self._placed.get(digest)))
            return
        offset = self._filling.get(digest)
        if offset is None:
            offset = self._filling[digest] = len(self._pack)
            self._pack += data
        self._waiting.append((len(self._slots), found, digest, offset))
        self._slots.append(None)
        if len(self._pack) >= PACK_BYTES:
            self.finish()

    def _add_large(self, found: Found, file: BinaryIO) -> None:
        whole, chunks, size = blake3(), [], 0
        while data := file.read(CHUNK_BYTES):
            whole.update(data)
            size += len(data)
            chunks.append(blake3(data).hexdigest())
            self._store(keys.chunk(chunks[-1]), data)
        self._check_unchanged(found, file, size)
        body = root_yaml(size, chunks)
        root = blake3(body).hexdigest()
        self._store(keys.root(root), body)
        self._slots.append(self._entry(found, whole.hexdigest(), root=root))

    def _check_unchanged(self, found: Found, file: BinaryIO, size: int) -> None:
        about = os.fstat(file.fileno())
        if (size, about.st_size, about.st_mtime_ns) != (found.size, found.size, found.mtime):
            raise SourceChanged(found.name)

    def _store(self, key: str, body: bytes) -> None:
        if self._blob.exists(key):
            return
        try:
            self._blob.create(key, body)
            self.stored += len(body)
        except AlreadyExists:
            pass  # somebody else stored the same bytes in the meantime

    def _entry(self, found: Found, digest: str, at: tuple[int, int] | None = None, root: str | None = None) -> Entry:
        return Entry(found.name, digest, found.size, found.mode, found.mtime, self._clock(), at, root)


def root_yaml(size: int, chunks: list[str]) -> bytes:
    """The root object of a large file."""
    lines = "".join(f"- {chunk}\n" for chunk in chunks)
    return f"version: 1\nsize: {size}\nchunk: {CHUNK_BYTES}\nchunks:\n{lines}".encode()


def root_chunks(body: bytes) -> list[str]:
    """The chunks that a root object lists."""
    return [line.removeprefix("- ") for line in body.decode().splitlines() if line.startswith("- ")]


@dataclass(slots=True)
class Span:
    """Entries whose bytes are read together: a stretch of one pack, or one large or empty file."""

    entries: list[Entry]
    pack: str | None = None
    start: int = 0
    stop: int = 0


def spans(entries: Iterator[tuple[Entry, str | None]]) -> Iterator[Span]:
    """Group entries, each with its pack, so that neighbours in a pack become one read of at most PACK_BYTES."""
    current: Span | None = None
    for entry, pack in entries:
        if pack is None or entry.at is None:
            yield Span([entry])
            continue
        start, stop = entry.at[1], entry.at[1] + entry.size
        if current is not None and current.pack == pack and current.start <= start <= current.stop + SMALL_BYTES:
            current.entries.append(entry)
            current.stop = max(stop, current.stop)
            continue
        if current is not None:
            yield current
        current = Span([entry], pack, start, stop)
    if current is not None:
        yield current


def fetch(span: Span, blob: ObjectStore, write: Callable[[Entry, Iterator[bytes]], None]) -> None:
    """Read a span and hand each file's bytes to `write`. The last piece comes only after the hash was right."""
    if span.pack is None:
        [entry] = span.entries
        write(entry, _large(entry, blob))
        return
    key = keys.pack(span.pack)
    data = memoryview(blob.get(key, span.start, span.stop - span.start))
    for entry in span.entries:
        offset = entry.at[1] - span.start if entry.at else 0
        content = bytes(data[offset : offset + entry.size])
        if blake3(content).hexdigest() != entry.hash:
            raise CorruptFile(entry.name, key)
        write(entry, iter([content]))


def _large(entry: Entry, blob: ObjectStore) -> Iterator[bytes]:
    """The chunks of a large file, each verified, and nothing for an empty one. The whole is verified at the end."""
    whole = blake3()
    key = keys.root(entry.root) if entry.root else entry.hash
    for chunk in root_chunks(_verified(blob, key, entry.root, entry)) if entry.root else []:
        data = _verified(blob, keys.chunk(chunk), chunk, entry)
        whole.update(data)
        yield data
    if whole.hexdigest() != entry.hash:
        raise CorruptFile(entry.name, key)


def _verified(blob: ObjectStore, key: str, digest: str, entry: Entry) -> bytes:
    data = blob.get(key)
    if blake3(data).hexdigest() != digest:
        raise CorruptFile(entry.name, key)
    return data
