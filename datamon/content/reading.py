"""Reading content back out of the store, all of it verified.

The list vouches for an entry, the entry for its bytes: of a small file by their hash; of a large one by the digest of
its root, which has the digests of its chunks. So any range of a large file can be verified without reading the rest.
A frame is decompressed only as far as its files need: one that is damaged costs those, and no others of its pack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from blake3 import blake3

from datamon.content.compression import CannotDecompress, decompress, read_chunk
from datamon.content.entry import MAX_FRAME_BYTES, PACK_BYTES, Entry
from datamon.content.roots import MAX_ROOT_BYTES, Chunk, Root
from datamon.core.errors import CorruptFile, NotFound
from datamon.stores import keys
from datamon.stores.protocol import ObjectStore

WINDOW = 50_000  # entries looked at together, so that what lies in one pack is read together
GAP_BYTES = 1 << 20  # reading over this much of a pack is quicker than a request of its own
PACKS_AHEAD = 4  # stretches of packs on their way while an earlier one is being used
CHUNKS_AHEAD = 12  # the same of one file
REQUESTS_AT_ONCE = 8  # when one range is read


@dataclass(slots=True)
class Span:
    """A stretch of a pack, and the entries in it."""

    pack: str
    start: int
    stop: int
    entries: list[Entry]


def spans(entries: Iterable[Entry]) -> Iterator[Span | Entry]:
    """What to read, in one request each: stretches of packs, and entries that are large or empty.

    Entries of several splits come mixed, and so do their packs; within a window of entries each pack is gone
    through once and in order.
    """
    rest = iter(entries)
    while window := list(islice(rest, WINDOW)):
        packs: dict[str, list[Entry]] = {}
        for entry in window:
            if entry.at is None:
                yield entry
            else:
                packs.setdefault(entry.at[0], []).append(entry)
        for pack, held in packs.items():
            yield from _coalesced(pack, sorted(held, key=_stretch))


def _coalesced(pack: str, entries: list[Entry]) -> Iterator[Span]:
    span: Span | None = None
    for entry in entries:
        start, stop = _stretch(entry)
        if span is not None and start <= span.stop + GAP_BYTES and stop - span.start <= PACK_BYTES + MAX_FRAME_BYTES:
            span.entries.append(entry)
            span.stop = max(span.stop, stop)
            continue
        if span is not None:
            yield span
        span = Span(pack, start, stop, [entry])
    if span is not None:
        yield span


def _stretch(entry: Entry) -> tuple[int, int]:
    """Where in its pack the bytes of a small file lie, or the frame that holds them."""
    if entry.at is None:
        return 0, 0
    if entry.at.length:
        return entry.at.start, entry.at.start + entry.at.length
    return entry.at.offset, entry.at.offset + entry.size


def get_span(span: Span, blob: ObjectStore) -> bytes | None:
    """The bytes of a span, if its pack is there."""
    try:
        return blob.get(keys.pack(span.pack), span.start, span.stop - span.start)
    except NotFound:
        return None


def read_span(span: Span, data: bytes | None) -> Iterator[tuple[Entry, memoryview | CorruptFile]]:
    """The files of a span, each verified: its bytes, or what is wrong with them."""
    key = keys.pack(span.pack)
    whole = memoryview(data or b"")
    for (start, stop), entries in groupby(span.entries, _stretch):
        stretch = whole[start - span.start : stop - span.start]
        held, wrong = stretch, "does not match its hash" if data is not None else "is not there"
        is_frame = False
        for entry in entries:
            at = entry.at
            if at is not None and at.length and not is_frame:
                is_frame = True
                held, wrong = _decompressed(stretch, at.start, wrong)
            offset = at.offset if at is not None and at.length else 0
            content = held[offset : offset + entry.size]
            if len(content) == entry.size and blake3(content).hexdigest() == entry.hash:
                yield entry, content
            else:
                yield entry, CorruptFile(entry.name, key, wrong)


def _decompressed(frame: memoryview, start: int, wrong: str) -> tuple[memoryview, str]:
    """What a frame holds, and what to say of files that are not right in it."""
    if not frame:
        return frame, wrong
    try:
        return memoryview(decompress(frame, MAX_FRAME_BYTES)), wrong
    except CannotDecompress as error:
        return memoryview(b""), f"is damaged: its frame at {start} {error}"


def read_root(entry: Entry, blob: ObjectStore) -> Root:
    """Where a large file's bytes are; of an empty file, nowhere."""
    if entry.root is None:
        return Root([])
    key = keys.root(entry.root)
    most = min(MAX_ROOT_BYTES, entry.size // 512 + 4096)  # chunks of any version of ours are larger than 64 KiB
    body = _get(entry, key, blob, most + 1)
    if len(body) > most:
        raise CorruptFile(entry.name, key, f"has more than {most} bytes")
    if blake3(body).hexdigest() != entry.root:
        raise CorruptFile(entry.name, key)
    root = Root.read(key, body)
    if root.size != entry.size:
        raise CorruptFile(entry.name, key, f"is of a file of {root.size} bytes, not {entry.size}")
    return root


def _get(entry: Entry, key: str, blob: ObjectStore, most: int) -> bytes:
    """An object that a file needs; of one that is larger than it may be, only as much as shows that."""
    try:
        return blob.get(key, 0, most)
    except NotFound:
        raise CorruptFile(entry.name, key, "is not there") from None


def _get_chunk(entry: Entry, chunk: Chunk, blob: ObjectStore) -> bytes:
    key = keys.chunk(chunk.digest)
    try:
        return read_chunk(_get(entry, key, blob, chunk.size + chunk.size // 64 + 1024), chunk.size)
    except CannotDecompress as error:
        raise CorruptFile(entry.name, key, str(error)) from None


def read_large(
    entry: Entry, root: Root, blob: ObjectStore, threads: Executor, *, after: Any = None, skip: int = 0
) -> Iterator[bytes]:
    """The chunks of a large file in order, the next ones being fetched meanwhile.

    The last step verifies the whole; if that fails, the chunk at fault is named. Where some of it is there
    already, `skip` is how many chunks, and `after` the hash of their bytes.
    """
    whole = after if after is not None else blake3()
    for data in _fetch_ahead(entry, root.chunks[skip:], blob, threads):
        whole.update(data)
        yield data
    if whole.hexdigest() != entry.hash:
        raise CorruptFile(entry.name, _chunk_at_fault(entry, root, blob) or keys.root(entry.root or ""))


def read_range(entry: Entry, blob: ObjectStore, start: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Any range of a file's bytes, as much of it as there is. Not a byte is given before it is verified."""
    stop = entry.size if length is None else min(entry.size, start + length)
    if start >= stop:
        return
    if entry.root is None:
        yield bytes(_read_small(entry, blob)[start:stop])
        return
    root, whole = read_root(entry, blob), blake3()
    first, last = root.covering(start, stop)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        for number, data in enumerate(_fetch_ahead(entry, root.chunks[first:last], blob, threads), first):
            if blake3(data).hexdigest() != root.chunks[number].digest:
                raise CorruptFile(entry.name, keys.chunk(root.chunks[number].digest))
            whole.update(data)
            offset = root.offsets[number]
            yield data[max(0, start - offset) : stop - offset]
    if last - first == len(root.chunks) and whole.hexdigest() != entry.hash:  # a root of another file
        raise CorruptFile(entry.name, keys.root(entry.root))


def _read_small(entry: Entry, blob: ObjectStore) -> memoryview:
    start, stop = _stretch(entry)
    span = Span(entry.at.pack if entry.at is not None else "", start, stop, [entry])
    [(_, content)] = read_span(span, get_span(span, blob))
    if isinstance(content, CorruptFile):
        raise content
    return content


def _fetch_ahead(entry: Entry, chunks: Iterable[Chunk], blob: ObjectStore, threads: Executor) -> Iterator[bytes]:
    waiting = deque(chunks)
    in_flight: deque[Future[bytes]] = deque()
    while waiting or in_flight:
        while waiting and len(in_flight) < CHUNKS_AHEAD:
            in_flight.append(threads.submit(_get_chunk, entry, waiting.popleft(), blob))
        yield in_flight.popleft().result()


def _chunk_at_fault(entry: Entry, root: Root, blob: ObjectStore) -> str | None:
    """The first chunk that is not what its name says."""
    wrong = (one for one in root.chunks if blake3(_get_chunk(entry, one, blob)).hexdigest() != one.digest)
    return next((keys.chunk(one.digest) for one in wrong), None)
