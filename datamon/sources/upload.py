"""From a source into the store, one task's work at a time.

    find_chunks    a huge file            a record of its hash and its chunks, which need not be in the store yet
    upload_slice   a run of its chunks    those that the store lacks
    upload_part    a range of names       packs, chunks, roots, then a list    the list says: this part is done

Content comes first and what points to it last, so a list never names what is not there, and a task that finds its own
has nothing to do.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from blake3 import blake3

from datamon.bundles.model import Bundle
from datamon.bundles.reader import bundle_lists, only_files
from datamon.content.chunking import cut
from datamon.content.compression import USUAL_LEVEL
from datamon.content.deduplication import KNOWN_ENTRIES, KnownContent
from datamon.content.entry import SMALL_BYTES, Entry
from datamon.content.roots import Chunk, Root
from datamon.content.writing import Clock, ContentWriter, ObjectWriter
from datamon.core.errors import AlreadyExists, CorruptObject, NotFound, SourceChanged, SourceUnreadable
from datamon.core.names import EVERYTHING, NameRange, sort_key
from datamon.core.task_progress import ReportProgress, ignore_progress
from datamon.core.text import os_reason
from datamon.lists.reader import read_reference
from datamon.lists.reference import ListRef
from datamon.lists.writer import UploadListWriter
from datamon.sources.cache import RACY_SECONDS, FileCache, KnownFile
from datamon.sources.plan import FINGERPRINT, Part, Slice, is_sliced, slices_of
from datamon.sources.skipped import SkipProblems
from datamon.sources.source import Source
from datamon.sources.tree import OnProblem, SourceFile, Tree, open_tree
from datamon.stores import keys
from datamon.stores.context import Context
from datamon.stores.protocol import ObjectStore, create_same

READ_BYTES = 16 << 20  # of a large file at a time: a request is worth it, and a few of them fit into memory
HASHED_LATER = 8  # chunks that wait to go into the hash of their file


@dataclass(frozen=True, slots=True)
class PartReport:
    """What one upload task did. There is no list where nothing of the part could be uploaded, nor for a slice."""

    listed: ListRef | None = None
    stored: int = 0
    resumed: bool = False
    unstored: str = ""  # a huge file of which a slice could not be read

    @property
    def files(self) -> int:
        """How many files are in the store now."""
        return self.listed.count if self.listed else 0

    @property
    def bytes(self) -> int:
        """How many bytes these files have."""
        return self.listed.bytes if self.listed else 0


@dataclass(frozen=True, slots=True)
class BaseBundle:
    """A bundle whose files need not be stored again, as far as a task has room to know them."""

    bundle: Bundle
    room: int = KNOWN_ENTRIES

    def known_content(self, names: NameRange, context: Context) -> KnownContent:
        """What a task with these names should know."""
        references = [one for one in self.bundle.lists if one.deletions == 0]
        near = [one for one in references if one.meets(names)]
        others = [*near, *(one for one in references if one not in near)]
        return KnownContent(
            _entries(context, near, names), (_entries(context, [one], EVERYTHING) for one in others), self.room
        )


def _entries(context: Context, references: list[ListRef], names: NameRange) -> Iterator[Entry]:
    return only_files(bundle_lists(context, references).entries(names))


@dataclass(frozen=True, slots=True)
class Upload:
    """What all tasks of an upload share. Its lists go into a folder of vmetadata, each run's beside those of others."""

    folder: str
    generation: int
    plan: str  # the plan's digest
    source: Source
    context: Context
    base: BaseBundle | None = None
    planned: int = 0  # when the plan was made
    level: int = USUAL_LEVEL  # of compression
    cache: str = ""  # where this host's cache of unchanged files is; none, if it is not to be used
    unstored: frozenset[str] = frozenset()  # huge files of which a slice could not be read

    def list_key(self, index: str) -> str:
        """Where a list lies."""
        return keys.uploaded_list(self.folder, index)

    def chunks_key(self, file: SourceFile) -> str:
        """Where the record of a huge file's chunks lies."""
        state = (
            f"{file.name}\0{file.inode}\0{file.changed}"  # of a file that has changed since, there is another record
        )
        return keys.uploaded_chunks(self.folder, self.generation, self.plan, state)

    def open_cache(self, looked_at: int) -> FileCache:
        """The cache of this host, for files of the source."""
        source = self.source
        unused = source.reread or source.is_remote
        return FileCache("" if unused else self.cache, os.path.realpath(source.path), looked_at)


def find_chunks(file: SourceFile, upload: Upload, report_progress: ReportProgress = ignore_progress) -> list[Slice]:
    """Read a huge file, and record its hash and its chunks. Gives the slices in which they are to be stored."""
    records, key = upload.context.vmetadata, upload.chunks_key(file)
    tree = open_tree(upload.source, upload.context)
    with ObjectWriter(upload.context.blob, report_progress, upload.level) as objects:
        if _Unchanged(upload, objects, [file], looked_at=0).get(file) is not None:
            return []
    try:
        _, root = _recorded(file, upload)
    except NotFound:
        try:
            _let_settle(file)
            digest, root = _hash_and_chunks(tree.pieces(file, READ_BYTES), report_progress)
        except (OSError, SourceUnreadable) as error:
            _unreadable(file, error, SkipProblems(upload.source))
            return []  # and it may be left out: its part will see that too
        create_same(records, key, f"hash: {digest}\n".encode() + root.yaml())
    return slices_of(file, root)


def _hash_and_chunks(pieces: Iterator[bytes], report_progress: ReportProgress) -> tuple[str, Root]:
    """The two hashes that each byte goes into are worked out at the same time."""
    whole = blake3()
    with ThreadPoolExecutor(1) as beside:
        chunks: list[Chunk] = []
        hashing: deque[Future[Any]] = deque()
        for data in cut(pieces):
            hashing.append(beside.submit(whole.update, data))
            chunks.append(Chunk(blake3(data).hexdigest(), len(data)))
            report_progress(0, len(data), 0)
            while len(hashing) > HASHED_LATER:
                hashing.popleft().result()
    return whole.hexdigest(), Root(chunks)


def upload_slice(piece: Slice, upload: Upload, report_progress: ReportProgress = ignore_progress) -> PartReport:
    """Store the chunks of a slice that the store lacks."""
    tree, file = open_tree(upload.source, upload.context), piece.file
    _, root = _recorded(file, upload)

    def read(number: int) -> bytes:
        chunk = root.chunks[number]
        data = tree.read(file, root.offsets[number], chunk.size)
        if blake3(data).hexdigest() != chunk.digest:
            raise SourceChanged(file.name)
        return data

    with ObjectWriter(upload.context.blob, report_progress, upload.level) as objects:
        try:
            numbers = range(piece.first, piece.stop)
            stored = [objects.missing_chunk(root.chunks[number], partial(read, number)) for number in numbers]
            for one in stored:
                one.result()
        except (OSError, SourceUnreadable) as error:
            _unreadable(file, error, SkipProblems(upload.source))
            return PartReport(stored=objects.stored, unstored=file.name)
    return PartReport(stored=objects.stored)


def upload_part(
    part: Part, upload: Upload, report_progress: ReportProgress = ignore_progress, clock: Clock = time.time_ns
) -> PartReport:
    """Store the files of a part, and then their list."""
    index = keys.upload_index(upload.generation, upload.plan, part.number)
    key = upload.list_key(index)
    lists = upload.context.vmetadata
    done = _written_before(lists, index, key)
    if done is not None:
        report_progress(done.files, done.bytes, 0)
        return done
    tree, skips = open_tree(upload.source, upload.context), SkipProblems(upload.source)
    looked_at = clock()
    files = _as_planned(part, tree, upload.planned)
    known = upload.base.known_content(_spanned(files), upload.context) if upload.base is not None else KnownContent()
    with ObjectWriter(upload.context.blob, report_progress, upload.level) as objects:
        unchanged = _Unchanged(upload, objects, files, looked_at)
        writer = ContentWriter(objects, known, clock)
        for file in files:
            try:
                _add(file, tree, writer, upload, unchanged)
            except (OSError, SourceUnreadable) as error:
                _unreadable(file, error, skips)
        entries = writer.finish()
        unchanged.remember(entries)
    skips.write(lists, upload.folder, index)
    if not entries:
        return PartReport(stored=objects.stored)
    listed = UploadListWriter()
    listed.add(*entries)
    body, reference = listed.seal(index)
    try:
        lists.create(key, body)
    except AlreadyExists:  # another run of this very part was faster; its times count
        reference = read_reference(key, lists.get(key), index)
    return PartReport(reference, objects.stored)


class _Unchanged:
    """The files of a task that this host's cache knows, as far as the store still has their content."""

    def __init__(self, upload: Upload, objects: ObjectWriter, files: list[SourceFile], looked_at: int) -> None:
        self._objects, self._files = objects, files
        self._cache = upload.open_cache(looked_at)
        self._known = self._cache.unchanged(files, _spanned(files))
        self._read: list[SourceFile] = []

    def get(self, file: SourceFile) -> KnownFile | None:
        """What is known of a file. One that is not known will be read."""
        known = self._known.get(file.name)
        if known is None or not self._is_stored(known):
            self._read.append(file)
            return None
        return known

    def remember(self, entries: list[Entry]) -> None:
        """Remember the files that were read."""
        self._cache.remember(self._read, entries)
        self._cache.close()

    def _is_stored(self, known: KnownFile) -> bool:
        if known.root is not None:
            return self._objects.has_file(known.root)
        return known.at is not None and self._objects.has_pack(known.at.pack)


def _add(file: SourceFile, tree: Tree, writer: ContentWriter, upload: Upload, unchanged: _Unchanged) -> None:
    if file.link is not None:
        writer.add_link(file, file.link)
    elif not file.size:
        writer.add_small(file, b"")
    elif (known := unchanged.get(file)) is not None:
        writer.add_stored(file, known.hash, known.at, known.root)
    elif file.size < SMALL_BYTES:
        writer.add_small(file, tree.read(file, 0, file.size))
    elif (cut_before := _cut_before(file, upload)) is not None:
        writer.add_cut(file, *cut_before)
    else:
        writer.add_large(file, tree.pieces(file, READ_BYTES))


def _written_before(lists: ObjectStore, index: str, key: str) -> PartReport | None:
    try:
        body = lists.get(key)
    except NotFound:
        return None
    return PartReport(read_reference(key, body, index), resumed=True)


def _recorded(file: SourceFile, upload: Upload) -> tuple[str, Root]:
    """The hash of a huge file and its chunks, as its record has them."""
    key = upload.chunks_key(file)
    first, _, rest = upload.context.vmetadata.get(key).partition(b"\n")
    if not re.fullmatch(rb"hash: [0-9a-f]{64}", first):
        raise CorruptObject(key, "it does not begin with the hash of a file")
    return first[len(b"hash: ") :].decode(), Root.read(key, rest)


def _cut_before(file: SourceFile, upload: Upload) -> tuple[str, Root] | None:
    """The hash and the chunks of a huge file that is stored; None if it is not, and must be read from here."""
    if not is_sliced(file) or file.name in upload.unstored:
        return None
    try:
        return _recorded(file, upload)
    except NotFound:  # it could not be read, or it has changed since, or this host forgot that it knows it
        return None


def _let_settle(file: SourceFile) -> None:
    """Wait until a file that has just been written cannot be written again with the same times."""
    if file.changed:
        time.sleep(min(max(0.0, RACY_SECONDS - (time.time_ns() - file.changed) / 10**9), RACY_SECONDS))


def _as_planned(part: Part, tree: Tree, planned: int) -> list[SourceFile]:
    """The files of a part, seen to be those that were planned. If not, one that was written since is named."""
    files = list(tree.walk(part.names, SkipProblems(tree.source)))
    if sum(file.fingerprint for file in files) % FINGERPRINT != part.fingerprint:
        written = files if len(files) == 1 else [file for file in files if planned and file.mtime >= planned]
        raise SourceChanged(written[0].name if written else tree.source.path)
    return files


def _spanned(files: list[SourceFile]) -> NameRange:
    """The names from the first file to the last."""
    return NameRange(sort_key(files[0].name), sort_key(files[-1].name) + "\0") if files else NameRange("", "")


def _unreadable(file: SourceFile, error: OSError | SourceUnreadable, on_problem: OnProblem) -> None:
    match error:
        case SourceUnreadable():
            on_problem(error)
        case FileNotFoundError():
            raise SourceChanged(file.name) from None
        case OSError(errno=errno.EMFILE | errno.ENFILE | errno.ENOMEM):  # that says nothing of the file
            raise SourceUnreadable(file.path, os_reason(error)) from error
        case _:
            on_problem(SourceUnreadable(file.path, os_reason(error)))
