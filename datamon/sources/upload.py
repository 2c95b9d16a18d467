"""From a source into the store, one task's work at a time.

    upload_slice   a run of a huge file   chunks, then a record of them        before the parts
    upload_part    a range of names       packs, chunks, roots, then a list    the list says: this part is done

Content comes first and what points to it last, so a record or list never names what is not there, and a task that finds
its own has nothing to do.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from dataclasses import dataclass

from datamon.bundles.model import Bundle
from datamon.bundles.reader import bundle_lists, only_files
from datamon.content.deduplication import KNOWN_ENTRIES, KnownContent
from datamon.content.entry import CHUNK_BYTES, SMALL_BYTES, Entry
from datamon.content.roots import Root, root_yaml
from datamon.content.writing import Clock, ContentWriter, ObjectWriter
from datamon.core.errors import AlreadyExists, NotFound, SourceChanged, SourceUnreadable
from datamon.core.names import EVERYTHING, NameRange, sort_key
from datamon.core.task_progress import ReportProgress, ignore_progress
from datamon.core.text import os_reason
from datamon.lists.reader import read_reference
from datamon.lists.reference import ListRef
from datamon.lists.writer import UploadListWriter
from datamon.sources.plan import FINGERPRINT, Part, Slice, is_sliced, slices_of
from datamon.sources.skipped import SkipProblems
from datamon.sources.source import Source
from datamon.sources.tree import OnProblem, SourceFile, Tree, open_tree
from datamon.stores import keys
from datamon.stores.context import Context
from datamon.stores.protocol import ObjectStore, create_same


@dataclass(frozen=True, slots=True)
class PartReport:
    """What one upload task did. There is no list where nothing of the part could be uploaded, nor for a slice."""

    listed: ListRef | None = None
    stored: int = 0
    resumed: bool = False

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

    def list_key(self, index: str) -> str:
        """Where a list lies."""
        return keys.uploaded_list(self.folder, index)

    def slice_key(self, piece: Slice) -> str:
        """Where the record of a slice lies."""
        return keys.uploaded_slice(self.folder, self.generation, self.plan, piece.file.name, piece.number)


def upload_slice(piece: Slice, upload: Upload, report_progress: ReportProgress = ignore_progress) -> PartReport:
    """Store the chunks of a slice, and then their record."""
    records, key = upload.context.vmetadata, upload.slice_key(piece)
    if records.exists(key):
        report_progress(0, piece.size, 0)
        return PartReport(resumed=True)
    tree = open_tree(upload.source, upload.context)
    with ObjectWriter(upload.context.blob, report_progress) as objects:
        try:
            chunks = [objects.chunk(data) for data in _pieces(tree, piece.file, piece.start, piece.size)]
        except (OSError, SourceUnreadable) as error:
            _unreadable(piece.file, error, SkipProblems(upload.source))
            return PartReport()  # and it may be left out: its part will see that too
        create_same(records, key, root_yaml(piece.size, [chunk.result() for chunk in chunks]))
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
    files = _as_planned(part, tree, upload.planned)
    known = upload.base.known_content(_spanned(files), upload.context) if upload.base is not None else KnownContent()
    with ObjectWriter(upload.context.blob, report_progress) as objects:
        writer = ContentWriter(objects, known, clock)
        for file in files:
            try:
                _add(file, tree, writer, upload)
            except (OSError, SourceUnreadable) as error:
                _unreadable(file, error, skips)
        entries = writer.finish()
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


def _add(file: SourceFile, tree: Tree, writer: ContentWriter, upload: Upload) -> None:
    if file.size < SMALL_BYTES:
        writer.add_small(file, tree.read(file, 0, file.size))
    elif is_sliced(file):
        writer.add_sliced(file, _pieces(tree, file, 0, file.size), lambda: _recorded(file, upload))
    else:
        writer.add_large(file, _pieces(tree, file, 0, file.size))


def _written_before(lists: ObjectStore, index: str, key: str) -> PartReport | None:
    try:
        body = lists.get(key)
    except NotFound:
        return None
    return PartReport(read_reference(key, body, index), resumed=True)


def _recorded(file: SourceFile, upload: Upload) -> list[str]:
    """The chunks of a huge file, as its slices recorded them."""
    slices = [upload.slice_key(piece) for piece in slices_of(file)]
    return [chunk for key in slices for chunk in Root.read(key, upload.context.vmetadata.get(key)).chunks]


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


def _pieces(tree: Tree, file: SourceFile, start: int, size: int) -> Iterator[bytes]:
    for offset in range(start, start + size, CHUNK_BYTES):
        yield tree.read(file, offset, min(CHUNK_BYTES, start + size - offset))


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
