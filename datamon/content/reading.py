"""Reading content back out of the store, all of it verified.

The list vouches for an entry, the entry for its bytes: of a small file by their hash; of a large one by the digest of
its root, which has the digests of its chunks. So any range of a large file can be verified without reading the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from blake3 import blake3

from datamon.content.entry import CHUNK_BYTES, PACK_BYTES, SMALL_BYTES, Entry
from datamon.content.roots import Root
from datamon.core.errors import CorruptFile, NotFound
from datamon.stores import keys
from datamon.stores.protocol import ObjectStore

WINDOW = 50_000  # entries looked at together, so that what lies in one pack is read together
GAP_BYTES = 1 << 20  # reading over this much of a pack is quicker than a request of its own
AHEAD = 4  # chunks of one file on their way while an earlier one is being used


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
            yield from _coalesced(pack, sorted(held, key=_offset))


def _coalesced(pack: str, entries: list[Entry]) -> Iterator[Span]:
    span: Span | None = None
    for entry in entries:
        start, stop = _offset(entry), _offset(entry) + entry.size
        if span is not None and start <= span.stop + GAP_BYTES and stop - span.start <= PACK_BYTES + SMALL_BYTES:
            span.entries.append(entry)
            span.stop = max(span.stop, stop)
            continue
        if span is not None:
            yield span
        span = Span(pack, start, stop, [entry])
    if span is not None:
        yield span


def _offset(entry: Entry) -> int:
    return entry.at[1] if entry.at is not None else 0


def get_span(span: Span, blob: ObjectStore) -> bytes | None:
    """The bytes of a span, if its pack is there."""
    try:
        return blob.get(keys.pack(span.pack), span.start, span.stop - span.start)
    except NotFound:
        return None


def read_span(span: Span, data: bytes | None) -> Iterator[tuple[Entry, memoryview | CorruptFile]]:
    """The files of a span, each verified: its bytes, or what is wrong with them."""
    key = keys.pack(span.pack)
    wrong = "does not match its hash" if data is not None else "is not there"
    whole = memoryview(data or b"")
    for entry in span.entries:
        offset = _offset(entry) - span.start
        content = whole[offset : offset + entry.size]
        if len(content) == entry.size and blake3(content).hexdigest() == entry.hash:
            yield entry, content
        else:
            yield entry, CorruptFile(entry.name, key, wrong)


def read_root(entry: Entry, blob: ObjectStore) -> Root:
    """Where a large file's bytes are; of an empty file, nowhere."""
    if entry.root is None:
        return Root(0, CHUNK_BYTES, [])
    key = keys.root(entry.root)
    body = _get(entry, key, blob)
    if blake3(body).hexdigest() != entry.root:
        raise CorruptFile(entry.name, key)
    root = Root.read(key, body)
    if root.size != entry.size:
        raise CorruptFile(entry.name, key, f"is of a file of {root.size} bytes, not {entry.size}")
    return root


def _get(entry: Entry, key: str, blob: ObjectStore) -> bytes:
    try:
        return blob.get(key)
    except NotFound:
        raise CorruptFile(entry.name, key, "is not there") from None


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
        raise CorruptFile(entry.name, _chunk_at_fault(root, blob) or keys.root(entry.root or ""))


def read_range(entry: Entry, blob: ObjectStore, start: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Any range of a file's bytes, as much of it as there is. Not a byte is given before it is verified."""
    stop = entry.size if length is None else min(entry.size, start + length)
    if start >= stop:
        return
    if entry.root is None:
        yield bytes(_read_small(entry, blob)[start:stop])
        return
    root, whole = read_root(entry, blob), blake3()
    first, last = start // root.chunk, -(-stop // root.chunk)
    with ThreadPoolExecutor(AHEAD) as threads:
        for number, data in enumerate(_fetch_ahead(entry, root.chunks[first:last], blob, threads), first):
            if blake3(data).hexdigest() != root.chunks[number]:
                raise CorruptFile(entry.name, keys.chunk(root.chunks[number]))
            whole.update(data)
            offset = number * root.chunk
            yield data[max(0, start - offset) : stop - offset]
    if last - first == len(root.chunks) and whole.hexdigest() != entry.hash:  # a root of another file
        raise CorruptFile(entry.name, keys.root(entry.root))


def _read_small(entry: Entry, blob: ObjectStore) -> memoryview:
    pack, offset = entry.at if entry.at is not None else ("", 0)
    span = Span(pack, offset, offset + entry.size, [entry])
    [(_, content)] = read_span(span, get_span(span, blob))
    if isinstance(content, CorruptFile):
        raise content
    return content


def _fetch_ahead(entry: Entry, chunks: Iterable[str], blob: ObjectStore, threads: Executor) -> Iterator[bytes]:
    waiting = deque(chunks)
    in_flight: deque[Future[bytes]] = deque()
    while waiting or in_flight:
        while waiting and len(in_flight) < AHEAD:
            in_flight.append(threads.submit(_get, entry, keys.chunk(waiting.popleft()), blob))
        yield in_flight.popleft().result()


def _chunk_at_fault(root: Root, blob: ObjectStore) -> str | None:
    """The first chunk that is not what its name says."""
    wrong = (chunk for chunk in root.chunks if blake3(blob.get(keys.chunk(chunk))).hexdigest() != chunk)
    return next((keys.chunk(chunk) for chunk in wrong), None)
