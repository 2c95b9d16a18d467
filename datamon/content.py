"""Content: how the bytes of files lie in the store, and the way back out of it.

    small files   packs/{xx}/{blake3}    file || file || file …       about PACK_BYTES, in name order
    large files   chunks/{xx}/{blake3}   CHUNK_BYTES, the last one shorter
                  roots/{xx}/{blake3}    YAML: the file's chunks in order
    empty files   nothing

Every object is named by the BLAKE3 of its bytes, so putting it twice stores it once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from blake3 import blake3

from datamon import keys
from datamon.errors import CorruptFile, CorruptObject, NotFound
from datamon.model import Entry
from datamon.stores import ObjectStore

SMALL_BYTES = 4 << 20  # from here on a file is worth objects of its own
PACK_BYTES = 32 << 20  # one PUT stays under a second at 50 MB/s
CHUNK_BYTES = 16 << 20  # what a failed request costs to send again

WINDOW = 50_000  # entries looked at together, so that what lies in one pack is read together
GAP_BYTES = 1 << 20  # reading over this much of a pack is quicker than a request of its own
MAX_CHUNK_BYTES = 1 << 30  # of any root: as much as a reader may have to hold
AHEAD = 4  # chunks of one file on their way while an earlier one is being written

_ROOT = re.compile(rb"version: 1\nsize: (\d{1,19})\nchunk: ([1-9]\d{0,18})\nchunks:\n((?:- [0-9a-f]{64}\n)*)")


def root_yaml(size: int, chunks: list[str]) -> bytes:
    """The root object of a large file."""
    lines = "".join(f"- {chunk}\n" for chunk in chunks)
    return f"version: 1\nsize: {size}\nchunk: {CHUNK_BYTES}\nchunks:\n{lines}".encode()


@dataclass(frozen=True, slots=True)
class Root:
    """What a root object says."""

    size: int
    chunk: int  # bytes of every chunk but the last
    chunks: list[str]

    @classmethod
    def read(cls, key: str, body: bytes) -> Root:
        """The root, if it is whole."""
        found = _ROOT.fullmatch(body)
        if found is None:
            raise CorruptObject(key, "it is no list of chunks")
        root = cls(int(found[1]), int(found[2]), found[3].decode().replace("- ", "").split())
        if root.chunk > MAX_CHUNK_BYTES:
            raise CorruptObject(key, f"`chunk` is {root.chunk}, and at most {MAX_CHUNK_BYTES}")
        if len(root.chunks) != -(-root.size // root.chunk):
            raise CorruptObject(key, f"`chunks` has {len(root.chunks)} for {root.size} bytes")
        return root


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
    body = _object(entry, key, blob)
    if blake3(body).hexdigest() != entry.root:
        raise CorruptFile(entry.name, key)
    root = Root.read(key, body)
    if root.size != entry.size:
        raise CorruptFile(entry.name, key, f"is of a file of {root.size} bytes, not {entry.size}")
    return root


def _object(entry: Entry, key: str, blob: ObjectStore) -> bytes:
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
    waiting = deque(root.chunks[skip:])
    flying: deque[Future[bytes]] = deque()
    while waiting or flying:
        while waiting and len(flying) < AHEAD:
            flying.append(threads.submit(_object, entry, keys.chunk(waiting.popleft()), blob))
        data = flying.popleft().result()
        whole.update(data)
        yield data
    if whole.hexdigest() != entry.hash:
        raise CorruptFile(entry.name, _at_fault(root, blob) or keys.root(entry.root or ""))


def read_verified(entry: Entry, root: Root, blob: ObjectStore, threads: Executor) -> Iterator[bytes]:
    """The same for a reader that cannot take anything back: each chunk is verified before it is given."""
    chunks = iter(root.chunks)
    for data in read_large(entry, root, blob, threads):
        chunk = next(chunks)
        if blake3(data).hexdigest() != chunk:
            raise CorruptFile(entry.name, keys.chunk(chunk))
        yield data


def _at_fault(root: Root, blob: ObjectStore) -> str | None:
    """The first chunk that is not what its name says."""
    wrong = (chunk for chunk in root.chunks if blake3(blob.get(keys.chunk(chunk))).hexdigest() != chunk)
    return next((keys.chunk(chunk) for chunk in wrong), None)
