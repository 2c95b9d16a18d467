"""Cutting a source into work of about equal cost.

A part is a range of names, not a list of files: whoever uploads it walks that range again. So a plan stays
small however many files there are, and its digest says whether the source is still the one that was planned.
A file that is too large for one task is read by one task, which finds its hash and its chunks. Several tasks store
these in slices, and its part then only lists it.

    walk -> pieces of PIECE_FILES files or PIECE_COST -> parts -> digest of the plan
    huge files -> chunks -> slices of SLICE_BYTES
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
from blake3 import blake3

from datamon.content.roots import Root
from datamon.core.errors import Remedy, SourceEmpty
from datamon.core.names import NameRange, sort_key
from datamon.core.text import counted
from datamon.sources.skipped import SkipProblems
from datamon.sources.source import is_like_glob
from datamon.sources.tree import SourceFile, Tree

MAX_FILES = 50_000  # of a part: they are listed in memory
FILE_COST = 8 << 10  # looking at, opening and listing a file takes as long as storing this much of a large one
PIECE_FILES = 256
PIECE_COST = 16 << 20
SMALL_PART = 16 << 20  # below this, one more Spark task costs more than it saves
LARGE_PART = 512 << 20  # a killed worker loses at most this much of a part's progress
SLICE_BYTES = 256 << 20
SLICED_FROM = 2 * SLICE_BYTES  # the whole file is read once more for its chunks, so it must be worth it
FINGERPRINT = 1 << 128


class Piece(msgspec.Struct, frozen=True):
    """A run of files in name order: where it starts, and what it costs, in bytes of a large file."""

    start: str
    files: int
    bytes: int
    fingerprint: int
    cost: int

    def __add__(self, other: Piece) -> Piece:
        return Piece(
            self.start,
            self.files + other.files,
            self.bytes + other.bytes,
            (self.fingerprint + other.fingerprint) % FINGERPRINT,
            self.cost + other.cost,
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
class Slice:
    """A run of a huge file's chunks: the work of one task, before the parts."""

    file: SourceFile
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole source, cut up. `reserved` names root folders of datamon's own that are never uploaded."""

    huge: list[SourceFile]
    parts: list[Part]
    digest: str
    reserved: list[str]
    skips: SkipProblems = field(compare=False)
    links_followed: int = 0

    @property
    def skipped(self) -> int:
        """How many things cannot be uploaded, and are left out."""
        return self.skips.count

    @property
    def files(self) -> int:
        """How many files there are to upload."""
        return sum(part.files for part in self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes there are to upload."""
        return sum(part.bytes for part in self.parts)


def make_plan(tree: Tree, slots: int) -> Plan:
    """Walk the source once and cut it for so many tasks at a time."""
    skips = SkipProblems(tree.source)
    huge: list[SourceFile] = []

    def files() -> Iterator[SourceFile]:
        for file in tree.walk(on_problem=skips):
            if is_sliced(file):
                huge.append(file)
            yield file

    parts = cut(gather(files()), slots)
    described = "\n".join(f"{part.names!r} {part.files} {part.bytes} {part.fingerprint:x}" for part in parts)
    digest = blake3(described.encode()).hexdigest()
    return Plan(huge, parts, digest, tree.reserved(), skips, tree.links_followed)


def check_not_empty(tree: Tree, plan: Plan) -> None:
    """SourceEmpty, if there is nothing to upload and that is not what was meant."""
    source = tree.source
    if plan.parts or source.may_be_empty:
        return
    remedy = Remedy.USE_GLOBS if source.name_filter and is_like_glob(source.name_filter) else Remedy.ALLOW_EMPTY
    skipped = f" ({counted(plan.skipped, 'thing')} skipped)" if plan.skipped else ""
    raise SourceEmpty(source.path, str(tree.filter) + skipped, remedy)


def cost_of(file: SourceFile) -> int:
    """How much work a file is. That of a sliced one is done before."""
    return (0 if is_sliced(file) else file.size) + FILE_COST


def is_sliced(file: SourceFile) -> bool:
    """Whether a file is so large that several tasks share it."""
    return file.size >= SLICED_FROM


def slices_of(file: SourceFile, root: Root) -> list[Slice]:
    """The chunks of a huge file in slices."""
    starts = [number for number, offset in enumerate(root.offsets[:-1]) if _begins_slice(root, number, offset)]
    return [Slice(file, first, stop) for first, stop in pairwise([*starts, len(root.chunks)])]


def _begins_slice(root: Root, number: int, offset: int) -> bool:
    return number == 0 or offset // SLICE_BYTES > root.offsets[number - 1] // SLICE_BYTES


def gather(files: Iterable[SourceFile]) -> Iterator[Piece]:
    """Add files up into pieces, small enough to be balanced, large enough to be few."""
    start, count, size, fingerprint, cost = "", 0, 0, 0, 0
    for file in files:
        more = cost_of(file)
        if count and (count == PIECE_FILES or cost + more > PIECE_COST):
            yield Piece(sort_key(start), count, size, fingerprint % FINGERPRINT, cost)
            count = size = fingerprint = cost = 0
        start = start if count else file.name
        count, size, fingerprint, cost = count + 1, size + file.size, fingerprint + file.fingerprint, cost + more
    if count:
        yield Piece(sort_key(start), count, size, fingerprint % FINGERPRINT, cost)


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
        fits = joined and joined[-1].files + piece.files <= MAX_FILES
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
