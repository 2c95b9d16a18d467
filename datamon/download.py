"""A bundle as files in a folder.

Each file is written below `.datamon/partial` and moved to its name only when its bytes have the right hash,
so what stands under a name is whole. The rules for names are applied again to what the lists say, whoever
wrote them: no list can make a file appear outside the destination.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from uuid import uuid4

from datamon import descriptors, keys
from datamon.content import Span, fetch, spans
from datamon.errors import CorruptObject, DestinationInUse, Failed, quoted, why
from datamon.filelist import FileList, in_order
from datamon.model import Bundle, Entry
from datamon.names import EVERYTHING, NameRange, flaw, order
from datamon.stores import Context

THREADS = 8
_MAX_STORED_NAME = 4096  # what lost is filed below a folder and a split id, so it may be longer than an uploaded name


def bundle_entries(
    context: Context, bundle: Bundle, names: NameRange = EVERYTHING
) -> Iterator[tuple[Entry, str | None]]:
    """The entries of a bundle in a range of names, in name order, each with the pack that holds it."""

    def opened(index: str, digest: str) -> Iterator[tuple[Entry, str | None]]:
        key = keys.bundle_files(bundle.repo, bundle.id, index)
        found = FileList(key, context.metadata.get(key), digest)
        for entry in found.entries(names):
            yield entry, found.packs[entry.at[0]] if entry.at else None

    met = [info for info in bundle.lists if names.meets(order(info.first), order(info.last))]
    return in_order([(info, opened(info.index, info.digest)) for info in met], lambda pair: pair[0].name)


def download(
    context: Context, bundle: Bundle, destination: Path, progress: Callable[[Entry], None] = lambda _: None
) -> None:
    """Write all files of a bundle below a folder that is empty or not there yet."""
    if destination.exists() and not destination.is_dir():
        raise DestinationInUse(str(destination), "is a file")
    if destination.exists() and any(destination.iterdir()):
        raise DestinationInUse(str(destination))
    own = destination / ".datamon"
    partial = own / "partial"
    try:
        partial.mkdir(parents=True)
        _fetch_all(
            context, spans(_safe(bundle, bundle_entries(context, bundle))), _Writer(destination, partial, progress)
        )
        (own / f"{bundle.id}.yaml").write_bytes(descriptors.dump(bundle))
        shutil.rmtree(partial)
    except BaseException as error:
        _clear(destination)  # it was empty before, and half a bundle looks too much like a whole one
        if isinstance(error, OSError):
            raise Failed(f"cannot write to {quoted(str(destination))}: {why(error)}") from error
        raise


def _clear(folder: Path) -> None:
    if folder.is_dir():
        for item in folder.iterdir():
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item, ignore_errors=True)
            else:
                item.unlink()


def _safe(bundle: Bundle, entries: Iterable[tuple[Entry, str | None]]) -> Iterator[tuple[Entry, str | None]]:
    for entry, pack in entries:
        wrong = flaw(entry.name, _MAX_STORED_NAME)
        if wrong is not None or entry.name.split("/")[0] == ".datamon":
            flawed = wrong or "it would stand among datamon's own files"
            raise CorruptObject(keys.bundle(bundle.repo, bundle.id), f"it lists {entry.name!r}, but {flawed}")
        yield entry, pack


def _fetch_all(context: Context, reads: Iterator[Span], write: Callable[[Entry, Iterator[bytes]], None]) -> None:
    """Fetch spans on a few threads, never more of them in flight than there are threads. The first failure ends it."""
    with ThreadPoolExecutor(THREADS) as pool:
        flying: set[Future[None]] = set()
        for span in reads:
            flying.add(pool.submit(fetch, span, context.blob, write))
            if len(flying) >= THREADS:
                landed, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in landed:
                    future.result()
        for future in flying:
            future.result()


class _Writer:
    def __init__(self, destination: Path, partial: Path, progress: Callable[[Entry], None]) -> None:
        self._destination, self._partial, self._progress = destination, partial, progress

    def __call__(self, entry: Entry, pieces: Iterator[bytes]) -> None:
        temporary, final = self._partial / uuid4().hex, self._destination / entry.name
        with temporary.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            os.fchmod(file.fileno(), entry.mode)
        os.utime(temporary, ns=(entry.mtime, entry.mtime))
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(final)
        self._progress(entry)
