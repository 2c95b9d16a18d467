"""Walking a source in name order, and cutting it into parts of about equal cost.

A part is a range of names, not a list of files: whoever uploads it walks that range again. So a plan stays
small however many files there are, and its digest says whether the source is still the one that was planned.

    walk -> pieces of PIECE_FILES files or PIECE_COST -> parts -> digest of the plan
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from blake3 import blake3

from datamon.errors import DatamonError, SourceMissing, SourceUnreadable, UnfitFile, why
from datamon.filelist import MAX_ENTRIES
from datamon.names import EVERYTHING, MAX_NAME_BYTES, RESERVED, NameRange, below, flaw, order

FILE_COST = 64 << 10  # opening, hashing and listing a tiny file takes as long as reading about this much of a large one
PIECE_FILES = 256
PIECE_COST = 16 << 20
SMALL_PART = 16 << 20  # below this, one more Spark task costs more than it saves
LARGE_PART = 512 << 20  # a killed worker loses at most this much of a part's progress
_FINGERPRINT = 1 << 128


@dataclass(frozen=True, slots=True)
class Source:
    """What to upload: a folder or a single file on this machine."""

    path: str
    skip_on_error: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file of the source."""

    name: str
    path: str
    size: int
    mode: int
    mtime: int

    @property
    def fingerprint(self) -> int:
        """A number that changes when the file does. Many files' numbers are added up, so any cut gives the same."""
        told = f"{self.name}\0{self.size}\0{self.mtime}\0{self.mode}".encode()
        return int.from_bytes(blake3(told).digest(16), "big")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of files in name order: where it starts, and what it costs."""

    start: str
    files: int = 0
    bytes: int = 0
    fingerprint: int = 0

    @property
    def cost(self) -> int:
        """How much work it is, in bytes of a large file."""
        return self.bytes + FILE_COST * self.files

    def __add__(self, other: Piece) -> Piece:
        return Piece(
            self.start,
            self.files + other.files,
            self.bytes + other.bytes,
            (self.fingerprint + other.fingerprint) % _FINGERPRINT,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """The work of one upload task."""

    number: int
    names: NameRange
    files: int
    bytes: int
    fingerprint: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole source, cut up. `reserved` names root folders of datamon's own that are never uploaded."""

    parts: list[Part]
    digest: str
    reserved: list[str]
    skipped: int

    @property
    def files(self) -> int:
        """How many files there are to upload."""
        return sum(part.files for part in self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes there are to upload."""
        return sum(part.bytes for part in self.parts)


def make_plan(source: Source, slots: int) -> Plan:
    """Walk the source once and cut it for so many tasks at a time."""
    skips = Skips(source)
    parts = cut(gather(walk(source, on_unfit=skips)), slots)
    told = "\n".join(f"{part.names!r} {part.files} {part.bytes} {part.fingerprint:x}" for part in parts)
    return Plan(parts, blake3(told.encode()).hexdigest(), _reserved(source), skips.count)


def gather(files: Iterable[Found]) -> Iterator[Piece]:
    """Add files up into pieces, small enough to be balanced, large enough to be few."""
    piece: Piece | None = None
    for found in files:
        one = Piece(order(found.name), 1, found.size, found.fingerprint)
        if piece is not None and (piece.files == PIECE_FILES or piece.cost + one.cost > PIECE_COST):
            yield piece
            piece = None
        piece = one if piece is None else piece + one
    if piece is not None:
        yield piece


def cut(pieces: Iterable[Piece], slots: int) -> list[Part]:
    """Join pieces into parts of about equal cost, enough of them to keep all slots busy to the end.

    A part starts as soon as its share of the cost is reached, so it is at most one piece larger than that.
    """
    pieces = list(pieces)
    cost = sum(piece.cost for piece in pieces)
    wanted = max(min(3 * slots, cost // SMALL_PART), cost // LARGE_PART, 1)
    joined: list[Piece] = []
    seen = 0
    for piece in pieces:
        fits = joined and joined[-1].files + piece.files <= MAX_ENTRIES
        if fits and seen < len(joined) * cost / wanted:
            joined[-1] += piece
        else:
            joined.append(piece)
        seen += piece.cost
    starts = ["", *(piece.start for piece in joined[1:])]
    return [
        Part(number, NameRange(start, stop), piece.files, piece.bytes, piece.fingerprint)
        for number, (piece, start, stop) in enumerate(zip(joined, starts, [*starts[1:], None], strict=False))
    ]


OnUnfit = Callable[[DatamonError], None]


def refuse(error: DatamonError) -> None:
    """What a walk does by default about something it cannot upload."""
    raise error


def walk(source: Source, names: NameRange = EVERYTHING, on_unfit: OnUnfit = refuse) -> Iterator[Found]:
    """The regular files of a source within a range of names, in name order.

    A link to a regular file inside the source counts as that file. A link that leads out of it or to a folder, a
    device, a socket, an illegal name: `on_unfit` decides, and the walk goes on if it returns.
    """
    try:
        about = os.stat(source.path)
    except FileNotFoundError:
        raise SourceMissing(source.path) from None
    except OSError as error:
        raise SourceUnreadable(source.path, why(error)) from error
    if stat.S_ISDIR(about.st_mode):
        top = os.path.realpath(source.path)
        yield from _walk_folder(source.path, "", top, names, on_unfit)
    elif stat.S_ISREG(about.st_mode):
        name = os.path.basename(os.path.abspath(source.path))
        if name in RESERVED:
            raise UnfitFile(name, "the name is datamon's own")
        if names.holds(order(name)):
            yield from _found(name, source.path, about, on_unfit)
    else:
        raise UnfitFile(source.path, "it is neither a folder nor a regular file")


class Skips:
    """The `on_unfit` that a source asks for: with skip_on_error, count and go on."""

    def __init__(self, source: Source) -> None:
        self._tolerant = source.skip_on_error
        self.count = 0

    def __call__(self, error: DatamonError) -> None:
        """One thing that cannot be uploaded."""
        if not self._tolerant:
            raise error
        self.count += 1


def _walk_folder(path: str, prefix: str, top: str, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
    try:
        with os.scandir(path) as scan:
            items = sorted(scan, key=lambda item: item.name)
    except OSError as error:
        on_unfit(SourceUnreadable(path, why(error)))
        return
    for item in items:
        name = prefix + item.name
        if not prefix and name in RESERVED:
            continue
        if item.is_dir(follow_symlinks=False):
            if len(os.fsencode(name)) >= MAX_NAME_BYTES:  # nothing in it can have a legal name
                on_unfit(UnfitFile(_shown(name), f"its name is longer than {MAX_NAME_BYTES} bytes"))
                continue
            inside = below(order(name))
            if names.meets(inside.start, inside.stop or ""):
                yield from _walk_folder(item.path, name + "/", top, names, on_unfit)
        elif names.holds(order(name)):
            yield from _look(item, name, top, on_unfit)


def _look(item: os.DirEntry[str], name: str, top: str, on_unfit: OnUnfit) -> Iterator[Found]:
    try:
        about = item.stat()
        leads_away = item.is_symlink() and os.path.commonpath([top, os.path.realpath(item.path)]) != top
    except OSError as error:
        on_unfit(SourceUnreadable(item.path, "the link leads nowhere" if item.is_symlink() else why(error)))
        return
    if leads_away:
        on_unfit(UnfitFile(name, "it is a link that leads out of the source"))
    elif stat.S_ISDIR(about.st_mode):
        on_unfit(UnfitFile(name, "it is a link to a folder"))
    elif not stat.S_ISREG(about.st_mode):
        on_unfit(UnfitFile(name, "it is not a regular file"))
    else:
        yield from _found(name, item.path, about, on_unfit)


def _found(name: str, path: str, about: os.stat_result, on_unfit: OnUnfit) -> Iterator[Found]:
    wrong = flaw(name)
    if wrong is not None:
        on_unfit(UnfitFile(_shown(name), wrong))
    else:
        yield Found(name, path, about.st_size, stat.S_IMODE(about.st_mode), about.st_mtime_ns)


def _shown(name: str) -> str:
    """A name that may be no text at all, as text."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _reserved(source: Source) -> list[str]:
    return sorted(name for name in RESERVED if os.path.lexists(os.path.join(source.path, name)))
