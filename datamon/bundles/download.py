"""A bundle as files in a folder."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from blake3 import blake3

from datamon.bundles.destination import Destination, write_all
from datamon.bundles.diff import diff
from datamon.bundles.model import Bundle
from datamon.bundles.reader import BundleReader, Selection
from datamon.content.entry import Entry
from datamon.content.reading import PACKS_AHEAD, Span, get_span, read_large, read_root, read_span, spans
from datamon.content.roots import Root
from datamon.core.errors import BadUsage, CorruptFile, Failed
from datamon.core.names import sort_key
from datamon.core.text import os_reason, quoted
from datamon.stores import descriptors
from datamon.stores.protocol import ObjectStore

FILES_AT_ONCE = 4  # large ones
REQUESTS_AT_ONCE = 8

Progress = Callable[[int, int], None]
"""Called with (files, bytes) as they are done."""


def no_progress(files: int, bytes: int) -> None:
    """The Progress of those who do not want to know."""


@dataclass(slots=True)
class Downloaded:
    """What a download did. `kept` counts files that were there already, from an earlier one.

    `deleted` counts files of an earlier download that went, and `changed` those that stay as somebody changed them.
    """

    files: int = 0
    bytes: int = 0
    kept: int = 0
    deleted: int = 0
    changed: int = 0


def download(
    reader: BundleReader,
    destination: Path,
    selection: Selection | None = None,
    *,
    force: bool = False,
    delete: bool = False,
    progress: Progress = no_progress,
) -> Downloaded:
    """Write files of a bundle below a folder that is empty, not there yet, or holds the same download half done.

    With `force` the folder may hold anything: the bundle's files take their places, all others stay. With `delete` it
    may too, and what earlier downloads of whole bundles put there, and the bundle does not hold, is deleted.
    """
    if delete and selection is not None:
        raise BadUsage("a folder becomes a whole bundle, not a part of one")
    folder = Destination(destination, reader.bundle.id)
    try:
        with folder.claimed(force=force or delete) as may_hold_files:
            running = _Download(reader.context.blob, folder, progress, looks=may_hold_files)
            earlier = list(folder.earlier()) if delete else []
            for key, body in earlier:  # first: a folder of the bundle may come where they had a file
                before = BundleReader(reader.context, descriptors.load(Bundle, key, body))
                running.delete(_gone(before, reader))
            result = running.run((selection or Selection()).entries(reader))
            folder.release(descriptors.dump(reader.bundle) if selection is None else None)
            for key, _ in earlier:
                folder.forget(key)
    except OSError as error:
        raise Failed(f"cannot write to {quoted(str(destination))}: {os_reason(error)}") from error
    return result


def _gone(before: BundleReader, after: BundleReader) -> Iterator[Entry]:
    """What a bundle held and another one does not."""
    for one in diff(before, after):
        if one.before is not None and one.after is None:
            yield before.trusted(one.before)


def cat(reader: BundleReader, name: str, out: BinaryIO) -> Entry:
    """Write one file of a bundle to a stream. Not a byte leaves before it is verified."""
    entry = reader.find(name)
    if entry.link is not None:
        raise BadUsage(f"{quoted(name)} is a symbolic link to {quoted(entry.link)}, so it has no content of its own")
    for data in reader.read(entry):
        out.write(data)
    return entry


class _Download:
    """One download, on a few threads.

    A file whose content is damaged is left out, and named at the end; any other failure ends it.
    """

    def __init__(self, blob: ObjectStore, folder: Destination, progress: Progress, *, looks: bool) -> None:
        self._blob, self._folder, self._progress, self._looks = blob, folder, progress, looks
        self._result = Downloaded()
        self._damaged: list[CorruptFile] = []
        self._ended = threading.Event()
        self._packs: deque[tuple[Span, Future[bytes | None]]] = deque()
        self._growing: set[Future[None]] = set()
        self._lock = threading.Lock()

    def delete(self, entries: Iterable[Entry]) -> None:
        """Delete files that an earlier download put there."""
        for entry in entries:
            removed = self._folder.remove(entry)
            self._result.deleted += removed is True
            self._result.changed += removed is False

    def run(self, entries: Iterable[Entry]) -> Downloaded:
        """Fetch everything. Small files are written on this thread only: on several, each waits for Python's lock."""
        with self._threads():
            for what in spans(self._missing(entries)):
                if isinstance(what, Span):
                    self._packs.append((what, self._requests.submit(get_span, what, self._blob)))
                    self._unpack(leave=PACKS_AHEAD)
                elif what.root is not None:
                    self._growing.add(self._files.submit(self._fetch_large, what))
                    self._await_files(leave=FILES_AT_ONCE)
                else:
                    self._folder.write(what, b"")
                    self._done(0)
            self._unpack(leave=0)
            self._await_files(leave=0)
        if self._damaged:
            first, *others = sorted(self._damaged, key=lambda error: sort_key(error.name))
            raise CorruptFile(first.name, first.key, first.reason, [error.name for error in others])
        return self._result

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
                self._result.kept += 1
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
                write_all(file.fileno(), data)
                self._progress(0, len(data))
            self._folder.place(entry, file)
        self._done(entry.size, reported=entry.size)

    def _done(self, size: int, *, files: int = 1, reported: int = 0) -> None:
        with self._lock:
            self._result.files += files
            self._result.bytes += size
        self._progress(files, size - reported)


def _whole_chunks(file: BinaryIO, root: Root) -> tuple[Any, int]:
    """The hash and the number of the chunks that a file begins with; it is cut off and left open behind them."""
    whole, good, end = blake3(), 0, 0
    for chunk in root.chunks:
        data = file.read(chunk.size)
        if blake3(data).hexdigest() != chunk.digest:
            break
        whole.update(data)
        good += 1
        end += len(data)
    file.seek(end)
    file.truncate()
    return whole, good
