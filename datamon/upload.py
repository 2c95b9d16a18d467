"""From a source into the store, one task's work at a time.

    upload_slice   a run of a huge file   chunks, then a record of them        before the parts
    upload_part    a range of names       packs, chunks, roots, then a list    the list says: this part is done

Content comes first and what points to it last, so a record or list never names what is not there, and a task
that finds its own has nothing to do. A task reads and hashes on its own thread while a few others put what is
ready: at most AT_ONCE + 1 packs or chunks are in memory, however large the files and however many.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from blake3 import blake3

from datamon import keys
from datamon.content import CHUNK_BYTES, PACK_BYTES, SMALL_BYTES, Root, root_yaml
from datamon.errors import AlreadyExists, NotFound, SourceChanged, SourceUnreadable, why
from datamon.filelist import ListWriter, read_info
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.known import Base, Known, Place
from datamon.model import Entry, ListInfo
from datamon.names import NameRange, order
from datamon.plan import FINGERPRINT, Part, Slice, is_sliced, slices_of
from datamon.sources import Found, OnUnfit, Skips, Source, Tree, open_tree
from datamon.stores import Context, ObjectStore, create_same
from datamon.telling import Tell, untold

AT_ONCE = 4  # requests in flight for a task: enough to hide a round trip, few enough to bound memory

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PartReport:
    """What one upload task did. `info` is None where nothing of the part could be uploaded, and for a slice."""

    info: ListInfo | None = None
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
    base: Base | None = None  # a bundle whose files need not be stored again
    planned: int = 0  # when the plan was made

    def list_key(self, info: ListInfo) -> str:
        """Where a list lies."""
        return keys.split_files(self.repo, self.diamond, self.split, info.index)

    def slice_key(self, piece: Slice) -> str:
        """Where the record of a slice lies."""
        index = keys.slice_index(self.generation, self.plan, piece.found.name, piece.number)
        return keys.split_slice(self.repo, self.diamond, self.split, index)


def upload_slice(piece: Slice, upload: Upload, tell: Tell = untold) -> PartReport:
    """Store the chunks of a slice, and then their record."""
    records, key = upload.context.vmetadata, upload.slice_key(piece)
    if records.exists(key):
        tell(0, piece.size, 0)
        return PartReport(resumed=True)
    tree = open_tree(upload.source, upload.context)
    with _Putter(upload.context.blob, tell) as putter:
        try:
            chunks = [putter.chunk(data) for data in _pieces(tree, piece.found, piece.start, piece.size)]
        except (OSError, SourceUnreadable) as error:
            _unreadable(piece.found, error, Skips(upload.source))
            return PartReport()  # and it may be left out: its part will see that too
        create_same(records, key, root_yaml(piece.size, [chunk.result() for chunk in chunks]))
    return PartReport(stored=putter.stored)


def upload_part(part: Part, upload: Upload, tell: Tell = untold, clock: Clock = time.time_ns) -> PartReport:
    """Store the files of a part, and then their list."""
    index = keys.split_index(upload.generation, upload.plan, part.number)
    key = keys.split_files(upload.repo, upload.diamond, upload.split, index)
    lists = upload.context.vmetadata
    done = _written_before(lists, index, key)
    if done is not None:
        tell(done.files, done.bytes, 0)
        return done
    tree, skips = open_tree(upload.source, upload.context), Skips(upload.source)
    found = _as_planned(part, tree, upload.planned)
    known = Known(_spanned(found), upload.context.metadata, upload.base)
    with _Putter(upload.context.blob, tell) as putter:
        filler = _Filler(putter, known, clock)
        for one in found:
            try:
                _add(one, tree, filler, upload)
            except (OSError, SourceUnreadable) as error:
                _unreadable(one, error, skips)
        entries = filler.finish()
    writer = ListWriter()
    writer.add(*entries)
    if not len(writer):
        return PartReport(stored=putter.stored)
    body, info = writer.seal(index)
    try:
        lists.create(key, body)
    except AlreadyExists:  # another run of this very part was faster; its times count
        info = read_info(key, lists.get(key), index)
    return PartReport(info, putter.stored)


def _add(found: Found, tree: Tree, filler: _Filler, upload: Upload) -> None:
    if found.size < SMALL_BYTES:
        filler.small(found, tree.read(found, 0, found.size))
    elif is_sliced(found):
        filler.sliced(found, tree, lambda: _recorded(found, upload))
    else:
        filler.large(found, tree)


def _written_before(lists: ObjectStore, index: str, key: str) -> PartReport | None:
    try:
        body = lists.get(key)
    except NotFound:
        return None
    return PartReport(read_info(key, body, index), resumed=True)


def _recorded(found: Found, upload: Upload) -> list[str]:
    """The chunks of a huge file, as its slices recorded them."""
    slices = [upload.slice_key(piece) for piece in slices_of(found)]
    return [chunk for key in slices for chunk in Root.read(key, upload.context.vmetadata.get(key)).chunks]


def _as_planned(part: Part, tree: Tree, planned: int) -> list[Found]:
    """The files of a part, seen to be those that were planned. If not, one that was written since is named."""
    found = list(tree.walk(part.names, Skips(tree.source)))
    if sum(one.fingerprint for one in found) % FINGERPRINT != part.fingerprint:
        written = found if len(found) == 1 else [one for one in found if planned and one.mtime >= planned]
        raise SourceChanged(written[0].name if written else tree.source.path)
    return found


def _spanned(found: list[Found]) -> NameRange:
    """The names from the first file to the last."""
    return NameRange(order(found[0].name), order(found[-1].name) + "\0") if found else NameRange("", "")


def _pieces(tree: Tree, found: Found, start: int, size: int) -> Iterator[bytes]:
    for offset in range(start, start + size, CHUNK_BYTES):
        yield tree.read(found, offset, min(CHUNK_BYTES, start + size - offset))


def _unreadable(found: Found, error: OSError | SourceUnreadable, on_unfit: OnUnfit) -> None:
    match error:
        case SourceUnreadable():
            on_unfit(error)
        case FileNotFoundError():
            raise SourceChanged(found.name) from None
        case OSError(errno=errno.EMFILE | errno.ENFILE | errno.ENOMEM):  # that says nothing of the file
            raise SourceUnreadable(found.path, why(error)) from error
        case _:
            on_unfit(SourceUnreadable(found.path, why(error)))


class _Putter:
    """Puts objects on a few threads. Whoever brings more than they can put waits; the first failure is raised."""

    def __init__(self, blob: ObjectStore, tell: Tell) -> None:
        self._blob, self.tell = blob, tell
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="put")
        self._flying: deque[Future[Any]] = deque()
        self._lock = threading.Lock()
        self.stored = 0

    def __enter__(self) -> _Putter:
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
            self.tell(0, len(data), 0)
            return digest

        return self._submit(put)

    def root(self, body: bytes) -> tuple[str, Future[None]]:
        """Put a root."""
        digest = blake3(body).hexdigest()
        return digest, self._submit(partial(self._put, keys.root(digest), body))

    def _submit(self, put: Callable[[], Any]) -> Future[Any]:
        while len(self._flying) >= AT_ONCE:
            self._flying.popleft().result()
        future = self._pool.submit(put)
        self._flying.append(future)
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
        self.tell(0, 0, len(body))


@dataclass(slots=True)
class _Pack:
    """A pack being filled: its bytes so far, what lies where in it, and the files that wait for it."""

    size: int = 0
    data: list[bytes] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[int, Found, str, int]] = field(default_factory=list)  # place, file, digest, offset


class _Filler:
    """Turns files into entries, in the order they come: into packs if small, into chunks if large.

    An entry's time is when its content was in the store, so it is made only then.
    """

    def __init__(self, putter: _Putter, known: Known, clock: Clock) -> None:
        self._putter, self._known, self._clock = putter, known, clock
        self._entries: list[Entry | None] = []
        self._pack = _Pack()
        self._due: deque[tuple[Future[None], Callable[[], None]]] = deque()  # what to do once something is stored

    def small(self, found: Found, data: bytes) -> None:
        """A file that shares a pack with others, unless its bytes lie somewhere already."""
        digest = blake3(data).hexdigest()
        pack = self._pack
        offset = pack.offsets.get(digest)
        place = self._known.get(digest) if data and offset is None else None
        if not data or place is not None:
            self._entries.append(self._entry(found, digest, place))
            self._putter.tell(1, found.size, 0)
            return
        if offset is None:
            offset = pack.offsets[digest] = pack.size
            pack.data.append(data)
            pack.size += len(data)
        pack.waiting.append((len(self._entries), found, digest, offset))
        self._entries.append(None)
        if pack.size >= PACK_BYTES:
            self._seal()

    def large(self, found: Found, tree: Tree) -> None:
        """A file in chunks of its own."""
        whole, chunks = blake3(), []
        for data in _pieces(tree, found, 0, found.size):
            chunks.append(self._putter.chunk(data))
            whole.update(data)
        self._root(found, whole.hexdigest(), [chunk.result() for chunk in chunks])

    def sliced(self, found: Found, tree: Tree, chunks: Callable[[], list[str]]) -> None:
        """A file whose chunks are stored already. It is read once more, for its hash, and to see it is the same."""
        whole = blake3()
        stored: list[str] = []
        for number, data in enumerate(_pieces(tree, found, 0, found.size)):
            stored = stored or chunks()
            if blake3(data).hexdigest() != stored[number]:
                raise SourceChanged(found.name)
            whole.update(data)
        self._root(found, whole.hexdigest(), stored)

    def finish(self) -> list[Entry]:
        """Wait until everything is stored; gives the entries."""
        if self._pack.data:
            self._seal()
        self._settle(len(self._due))
        return [entry for entry in self._entries if entry is not None]

    def _seal(self) -> None:
        pack, self._pack = self._pack, _Pack()
        digest, stored = self._putter.pack(b"".join(pack.data))
        for name, offset in pack.offsets.items():
            self._known.add(name, (digest, offset))

        def enter() -> None:
            now = self._clock()
            for place, found, name, offset in pack.waiting:
                self._entries[place] = self._entry(found, name, (digest, offset), now=now)
            self._putter.tell(len(pack.waiting), sum(one[1].size for one in pack.waiting), 0)

        pack.data = []
        self._due.append((stored, enter))
        self._settle(len(self._due) - AT_ONCE)

    def _root(self, found: Found, digest: str, chunks: list[str]) -> None:
        root, stored = self._putter.root(root_yaml(found.size, chunks))
        place = len(self._entries)
        self._entries.append(None)

        def enter() -> None:
            self._entries[place] = self._entry(found, digest, root=root)
            self._putter.tell(1, 0, 0)

        self._due.append((stored, enter))

    def _settle(self, count: int) -> None:
        for _ in range(count):
            stored, enter = self._due.popleft()
            stored.result()
            enter()

    def _entry(
        self, found: Found, digest: str, at: Place | None = None, root: str | None = None, now: int = 0
    ) -> Entry:
        return Entry(found.name, digest, found.size, found.mode, found.mtime, now or self._clock(), at, root)
