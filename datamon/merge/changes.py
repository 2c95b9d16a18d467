"""Peers and layers in one range of names, settled by the rules.

All of the range is read at once, and settled in strips: what is made of a few thousand lines stays in the processor's
caches, and its memory serves for the next ones. A block that no other input comes near is handed on undecoded.

    list A   |-- block --|-- block --|-- block --|
    list B                     |-- block --|           |-- block --|
    pieces   copied      | strip | strip …       |     | copied    |
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, compress, count
from typing import TypeVar

from datamon.core.concurrency import map_concurrently
from datamon.core.names import NameRange, ancestors, inside_folder, is_below, only_name, sort_key
from datamon.lists.cutting import Cutting
from datamon.lists.format import (
    Block,
    RawBlock,
    Rows,
    concatenated,
    decode_line,
    decode_rows,
    decode_timestamp,
    no_rows,
    pick,
)
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.merge.inputs import MergeInput, MergeTask, Role
from datamon.merge.ranges import ListOfInput, Mark, cut_at
from datamon.merge.rules import (
    FolderDeletion,
    Settled,
    Strength,
    Version,
    deleted_folder,
    overruled,
    settle,
    strongest,
    with_folder_deletions,
)
from datamon.stores.context import Context

Result = TypeVar("Result")


@dataclass(slots=True)
class Outcome:
    """Some names after the rules: which files are there, and what goes of the base. Names are sort keys."""

    rows: Rows = field(default_factory=no_rows)
    block_starts: list[tuple[int, bool]] = field(default_factory=list)  # of the rows; see `Cutting.block_starts`
    contested: list[Settled] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    folders: list[NameRange] = field(default_factory=list)  # everything there is deleted
    ghosts: list[str] = field(default_factory=list)  # of files that a later layer removed: the base made room for them


@dataclass(frozen=True, slots=True)
class Cover:
    """A file above others: one of a layer, or one of a peer that won against the folder of its name."""

    key: str
    strength: Strength


@dataclass(slots=True)
class Covering:
    """What reaches over from names that came before: files, and deletions of folders."""

    files: list[Cover] = field(default_factory=list)
    deletions: list[FolderDeletion] = field(default_factory=list)

    def reaches(self, key: str) -> bool:
        """Whether anything reaches over a name."""
        return any(is_below(key, one.key) for one in self.files) or any(one.names.holds(key) for one in self.deletions)

    def over(self, key: str, role: Role) -> Strength | None:
        """The strongest file above a name, among inputs of one role."""
        above = (one.strength for one in self.files if one.strength[0] == role and is_below(key, one.key))
        return max(above, default=None)

    def deletions_of(self, key: str, role: Role) -> list[FolderDeletion]:
        """The deletions of folders that count for a name, by inputs of one role."""
        return [one for one in self.deletions if one.strength[0] == role and one.names.holds(key)]

    def drop_ended(self, key: str) -> None:
        """Forget the deletions of folders that end before a name. They nest, so the last one ends first."""
        while self.deletions and not self.deletions[-1].names.holds(key):
            self.deletions.pop()

    def leave(self, stop: str | None) -> None:
        """Forget what does not reach over a name."""
        self.files = [one for one in self.files if stop is not None and is_below(stop, one.key)]
        self.deletions = [one for one in self.deletions if stop is not None and one.names.holds(stop)]


@dataclass(frozen=True, slots=True)
class _Run:
    """What one list holds in a strip."""

    role: int
    input: str
    rank: int | None
    key: str  # of the list
    rows: Rows
    keys: list[str]  # of the rows
    firsts: list[str]  # names that blocks begin with
    has_deletions: bool = False

    def strength(self, place: bytes) -> Strength:
        rank = decode_timestamp(self.key, place) if self.rank is None else self.rank
        return self.role, rank, self.input

    def version(self, line: bytes, place: bytes) -> Version:
        named = decode_line(self.key, line)
        return Version(named.name, named.hash, named.size, self.strength(place), line, place)


class _Cursor:
    """One list in a range of names, read from its beginning to its end."""

    def __init__(self, one: MergeInput, rank: int | None, listed: FileList, names: NameRange) -> None:
        self._one, self._rank, self._listed, self._names = one, rank, listed, names
        head = listed.head
        start, stop = head.around(names)
        self._first, self._stop = start, stop
        self.infos = head.blocks[start:stop]
        self.starts = head.firsts[start:stop]
        self.ends = [*head.firsts[start + 1 : stop + 1], listed.reference.end][: len(self.starts)]
        self._next = 0
        self._rest, self._rest_keys = no_rows(), list[str]()  # of blocks that were decoded already

    @cached_property
    def _raws(self) -> list[RawBlock]:
        return self._listed.read_blocks(self._first, self._stop)

    def read(self) -> _Cursor:
        """Read all of it at once."""
        assert self._raws is not None
        return self

    def blocks(self) -> Iterator[tuple[str, str, int, bool]]:
        """Where blocks start and end, how many entries they have, and whether they could be copied."""
        for block, start, end in zip(self.infos, self.starts, self.ends, strict=True):
            inside = start >= self._names.start and (self._names.stop is None or end <= self._names.stop)
            yield start, end, block.count, inside and not block.deletions

    def last_before(self) -> Rows:
        """The last row before the range, which is in the first block or nowhere; see FileList."""
        if self.starts[0] >= self._names.start:
            return no_rows()
        rows = self._raws[0].rows()
        keys = rows.keys()
        position = bisect_left(keys, self._names.start)
        is_there = self._names.start in keys[position : position + 1]
        return no_rows() if is_there or not position else rows[position - 1 : position]

    def take_block(self) -> RawBlock:
        """The next block, undecoded. All before it has been taken."""
        return self._raws[self._skip()]

    def take_info(self) -> Block:
        """What the head says about the next block, which is not read. All before it has been taken."""
        return self.infos[self._skip()]

    def _skip(self) -> int:
        assert not self._rest, "rows of the block before are still here"
        self._next += 1
        return self._next - 1

    def take(self, names: NameRange) -> _Run | None:
        """The rows in a range of names. All before it has been taken."""
        stop = len(self.starts) if names.stop is None else bisect_left(self.starts, names.stop, self._next)
        firsts = [block.first for block in self.infos[self._next : stop]]
        if stop > self._next:
            fresh, keys = self._decode(stop)
            self._rest = self._rest + fresh if self._rest else fresh
            self._rest_keys = self._rest_keys + keys
        end = len(self._rest_keys) if names.stop is None else bisect_left(self._rest_keys, names.stop)
        if not end:
            return None
        taken, keys = self._rest[:end], self._rest_keys[:end]
        self._rest, self._rest_keys = self._rest[end:], self._rest_keys[end:]
        has_deletions = self._listed.reference.deletions > 0
        return _Run(self._one.role, self._one.id, self._rank, self._listed.key, taken, keys, firsts, has_deletions)

    def _decode(self, stop: int) -> tuple[Rows, list[str]]:
        raws = self._raws[self._next : stop]
        rows = decode_rows(self._listed.key, [raw.entries for raw in raws], [raw.places for raw in raws])
        keys = rows.keys()
        if self._next == 0 and self.starts[0] < self._names.start:
            before = bisect_left(keys, self._names.start)
            rows, keys = rows[before:], keys[before:]
        self._next = stop
        return rows, keys


@dataclass(frozen=True, slots=True)
class _Piece:
    """Names that some lists hold; if it is a block of one list alone, it can be copied."""

    names: NameRange
    cursors: list[_Cursor]
    is_block: bool = False


class Changes:
    """The peers and layers of a merge, in one range of names."""

    def __init__(self, task: MergeTask, names: NameRange, context: Context, *, only_look: bool = False) -> None:
        """With `only_look`, blocks that could be copied are not even read."""
        self._task, self._names, self._context, self._only_look = task, names, context, only_look
        self._lists = task.changes()
        self._strongest: dict[tuple[NameRange, Role], Strength | None] = {}
        met = [pair for pair in self._lists if pair[1].meets(names)]
        self._cursors = list(self._each(self._cursor, met))
        self._cursor_of = {
            (one.id, reference): cursor for (one, reference), cursor in zip(met, self._cursors, strict=True)
        }
        self.covering = self._covering_at(names.start)

    def settle(self) -> Iterator[RawBlock | Block | Outcome]:
        """Everything in the range, in name order. What is copied holds neither deletions nor conflicts."""
        has_layers = any(one.role is Role.LAYER for one in self._task.inputs)
        for piece in self._pieces():
            names = piece.names
            if piece.is_block and not self.covering.reaches(names.start):
                [alone] = piece.cursors
                yield alone.take_info() if self._only_look else alone.take_block()
                continue
            runs = [run for cursor in piece.cursors if (run := cursor.take(names)) is not None]
            strip = _Strip(names, runs, self.covering, self.strongest, self._task.sizes.cutting, has_layers=has_layers)
            yield strip.settle()

    def strongest(self, folder: NameRange, role: Role) -> Strength | None:
        """The greatest strength of a file in a range of names, however large that is, among inputs of one role."""

        def strength(pair: ListOfInput) -> Strength | None:
            one, reference = pair
            rank = self._task.rank(one)
            if all(map(folder.holds, (reference.start, sort_key(reference.last)))) and not reference.deletions:
                return one.role, reference.latest if rank is None else rank, one.id
            latest = self._open(one, reference).latest(folder)
            return None if latest is None else (one.role, latest if rank is None else rank, one.id)

        if (folder, role) not in self._strongest:  # every strip below a folder asks for the same
            met = [pair for pair in self._lists if pair[0].role is role and pair[1].meets(folder)]
            strengths = self._each(strength, met)
            self._strongest[folder, role] = max((one for one in strengths if one is not None), default=None)
        return self._strongest[folder, role]

    def _open(self, one: MergeInput, reference: ListRef) -> FileList:
        return one.open(reference, self._context)

    def _cursor(self, pair: ListOfInput) -> _Cursor:
        one, reference = pair
        cursor = _Cursor(one, self._task.rank(one), self._open(one, reference), self._names)
        return cursor if self._only_look else cursor.read()

    def _each(self, work: Callable[[ListOfInput], Result], lists: list[ListOfInput]) -> Iterable[Result]:
        """Do some work that reads on each of these lists."""
        return map_concurrently(lists, work) if self._context.vmetadata.is_remote else map(work, lists)

    def _pieces(self) -> Iterator[_Piece]:
        """The range in pieces: blocks that lie alone, and between them strips of a few thousand entries."""
        blocks = sorted(
            (start, end, number, entries, copyable)
            for number, cursor in enumerate(self._cursors)
            for start, end, entries, copyable in cursor.blocks()
        )
        stretch: list[_Interval] = []
        for cluster in _clusters(blocks):
            start, end, number, _, copyable = cluster[0]
            if len(cluster) == 1 and copyable:
                yield from self._strips(stretch)
                stretch = []
                yield _Piece(NameRange(start, end), [self._cursors[number]], is_block=True)
            else:
                stretch += cluster
        yield from self._strips(stretch)

    def _strips(self, stretch: list[_Interval]) -> Iterator[_Piece]:
        if not stretch:
            return
        first, last = max(self._names.start, stretch[0][0]), max(block[1] for block in stretch)
        if self._names.stop is not None:
            last = min(last, self._names.stop)
        cursors = [self._cursors[number] for number in sorted({block[2] for block in stretch})]
        marks: list[Mark] = [(block[0], block[3]) for block in stretch if block[0] >= first]
        strips = self._task.sizes.strips(sum(entries for _, entries in marks), len(cursors))
        yield from (_Piece(names, cursors) for names in cut_at(marks, NameRange(first, last), strips))

    def _covering_at(self, start: str) -> Covering:
        """What reaches over the beginning of the range.

        An input that holds a file above it holds nothing below that file, so the file stands right before the range in
        its list; but next to a deletion there may be more.
        """
        folders = list(ancestors(start))
        wanted = {"\0", *folders, *(f"{folder}\0" for folder in folders)}

        def look_up(pair: ListOfInput) -> list[tuple[str, Version]]:
            one, reference = pair
            listed, cursor = self._open(one, reference), self._cursor_of.get((one.id, reference))
            if reference.deletions:
                candidates = [listed.find(key) for key in wanted if reference.meets(only_name(key))]
            else:
                candidates = [cursor.last_before() if cursor is not None else listed.last_before(start)]
            run = _Run(one.role, one.id, self._task.rank(one), listed.key, no_rows(), [], [])
            return [
                (key, run.version(rows.lines[0], rows.places[0]))
                for rows in candidates
                for key in wanted.intersection(rows.keys())
            ]

        near = [pair for pair in self._lists if _may_cover(pair[1], start, folders)]
        versions: dict[str, list[Version]] = {}
        for key, version in chain.from_iterable(self._each(look_up, near)):
            versions.setdefault(key, []).append(version)
        covering = Covering()
        for key, held in versions.items():
            if key.endswith("\0"):
                covering.deletions += (FolderDeletion(deleted_folder(key), version.strength) for version in held)
        covering.deletions.sort(key=lambda one: one.names.start)
        for folder in folders:
            self._cover(covering, folder, versions.get(folder, []))
        return covering

    def _cover(self, covering: Covering, folder: str, versions: list[Version]) -> None:
        """Take note of the files that stand where a folder above the range would be."""
        peers, layers = by_role(versions)
        files = [version for version in layers if not version.deleted]
        if peers:
            held = with_folder_deletions(peers, covering.deletions_of(folder, Role.PEER))
            settled = overruled(settle(held), covering.over(folder, Role.PEER))
            file = overruled(settled, self.strongest(inside_folder(folder), Role.PEER)).file
            files += [file] if file is not None else []
        covering.files += (Cover(folder, file.strength) for file in files)


def by_role(versions: Iterable[Version]) -> tuple[list[Version], list[Version]]:
    """Versions of peers, and those of layers."""
    roles: tuple[list[Version], list[Version]] = ([], [])
    for version in versions:
        roles[version.strength[0] == Role.LAYER].append(version)
    return roles


def _may_cover(reference: ListRef, start: str, folders: list[str]) -> bool:
    """Whether a list may hold a file or the deletion of a folder above the beginning of a range."""
    if reference.start >= start:
        return False
    last = sort_key(reference.last)
    return bool(reference.deletions) or (bool(folders) and (last >= start or last in folders))


_Interval = tuple[str, str, int, int, bool]


def _clusters(blocks: list[_Interval]) -> Iterator[list[_Interval]]:
    """Blocks that overlap, by where they start."""
    cluster: list[_Interval] = []
    reach = ""
    for block in blocks:
        if cluster and block[0] >= reach:
            yield cluster
            cluster = []
        cluster.append(block)
        reach = max(reach, block[1]) if len(cluster) > 1 else block[1]
    if cluster:
        yield cluster


class _Strip:
    """All that the inputs hold in a strip, as columns in name order. Most of it is never looked at one by one.

    Where a name is the same as the one before or lies below it, it also starts like it; so all that may be contested
    is found by one comparison a name, which Python makes in C.
    """

    def __init__(
        self,
        names: NameRange,
        runs: list[_Run],
        covering: Covering,
        find_strongest: Callable[[NameRange, Role], Strength | None],
        cutting: Cutting,
        *,
        has_layers: bool,
    ) -> None:
        self._names, self._runs, self._covering, self._find_strongest = names, runs, covering, find_strongest
        self._ends = list(accumulate(len(run.rows) for run in runs))
        if len(runs) == 1:
            rows, keys = runs[0].rows, runs[0].keys
            self._positions = list(range(len(keys)))
        else:
            rows, keys = concatenated([run.rows for run in runs]), list(chain.from_iterable(run.keys for run in runs))
            self._positions = sorted(range(len(keys)), key=keys.__getitem__)  # runs are sorted, so this merges them
            rows, keys = rows.at(self._positions), pick(keys, self._positions)
        self._rows, self._keys = rows, keys
        self._following = keys[1:] + ([] if names.stop is None else [names.stop])
        self._cutting, self._has_layers = cutting, has_layers
        self._lost: list[int] = []  # positions, in order
        self._outcome = Outcome()

    def settle(self) -> Outcome:
        """Everything after the rules."""
        done = 0
        for position in self._to_settle():
            if position >= done:
                done = self._settle_name(position)
        self._covering.leave(self._names.stop)
        self._outcome.rows = self._rows.without(self._lost) if self._lost else self._rows
        self._outcome.block_starts = self._block_starts()
        return self._outcome

    def _block_starts(self) -> list[tuple[int, bool]]:
        """Which rows begin a block. Their hashes say so; but where one does, a block of its input begins there too."""
        summaries = self._outcome.rows.summaries
        starts: list[tuple[int, bool]] = []
        for name in sorted({name for run in self._runs for name in run.firsts}, key=sort_key):
            position = bisect_left(self._keys, sort_key(name))
            position -= bisect_left(self._lost, position)
            if self._cutting.starts_block(name) and position < len(summaries) and summaries[position].name == name:
                starts.append((position, self._cutting.starts_list(name)))
        return starts

    def _to_settle(self) -> Iterable[int]:
        """The positions of names that are not simply won by the one version there is."""
        covering = self._covering
        if covering.deletions or covering.files or any(run.has_deletions for run in self._runs):
            return range(len(self._keys))
        alike = compress(count(), map(str.startswith, self._following, self._keys))
        return filter(self._is_contested, alike)

    def _is_contested(self, position: int) -> bool:
        key, following = self._keys[position], self._following[position]
        return key == following or is_below(following, key)

    def _settle_name(self, start: int) -> int:
        """Settle the name at a position, and the names below it if it is a file; gives the position of the next one."""
        key = self._keys[start]
        self._covering.drop_ended(key)
        versions, stop = self._versions(start)
        if key.endswith("\0"):
            self._delete_folder(key, versions, start)
            return stop
        peers, layers = by_role(versions) if self._has_layers else (versions, [])
        has_below = is_below(self._next(stop), key)
        winner = self._settle_peers(key, peers, stop, has_below=has_below)
        file = self._settle_layers(key, layers, winner, stop, has_below=has_below)
        self._lost += (start + number for number, version in enumerate(versions) if version is not file)
        covers = [version for version in layers if not version.deleted]
        covers += [winner] if winner is not None else []
        if not has_below or not covers:
            return stop
        depth = len(self._covering.files)
        self._covering.files += (Cover(key, version.strength) for version in covers)
        while stop < len(self._keys) and is_below(self._keys[stop], key):
            stop = self._settle_name(stop)
        if self._names.stop is None or not is_below(self._names.stop, key):
            del self._covering.files[depth:]  # all that lies below is settled
        return stop

    def _settle_peers(self, key: str, versions: list[Version], following: int, *, has_below: bool) -> Version | None:
        """The file that wins among peers."""
        if not versions:
            return None
        covering = self._covering
        if covering.deletions or covering.files:
            settled = settle(with_folder_deletions(versions, covering.deletions_of(key, Role.PEER)))
            settled = overruled(settled, covering.over(key, Role.PEER))
        else:
            settled = settle(versions)
        if has_below:
            settled = overruled(settled, self._strongest(key, following, Role.PEER))
        if settled.conflicts:
            self._outcome.contested.append(settled)
        if settled.winner is not None and settled.winner.deleted:
            self._outcome.deleted.append(key)
        return settled.file

    def _settle_layers(
        self, key: str, versions: list[Version], winner: Version | None, following: int, *, has_below: bool
    ) -> Version | None:
        """The file that is there in the end: that of the last layer, else the winner among peers, unless removed."""
        if not self._has_layers:
            return winner
        covering, outcome = self._covering, self._outcome
        held = with_folder_deletions(versions, covering.deletions_of(key, Role.LAYER), key)
        last = strongest(held) if held else winner
        over = [covering.over(key, Role.LAYER)]
        if has_below:
            over.append(self._strongest(key, following, Role.LAYER))
        removed = last is not None and any(one is not None and one > last.strength for one in over)
        file = last if last is not None and not last.deleted and not removed else None
        if last is not None and last.deleted:
            outcome.deleted.append(key)
        if any(not version.deleted for version in versions) or winner is not None:
            outcome.ghosts += [key] if file is None else []
        return file

    def _delete_folder(self, key: str, versions: list[Version], start: int) -> None:
        self._outcome.folders.append(deleted_folder(key))
        self._covering.deletions += (FolderDeletion(deleted_folder(key), version.strength) for version in versions)
        self._lost += range(start, start + len(versions))

    def _next(self, position: int) -> str:
        """The name at a position; behind the last one, that at which the strip was cut."""
        return self._following[position - 1] if position <= len(self._following) else ""

    def _versions(self, start: int) -> tuple[list[Version], int]:
        """The versions of the name at a position, and the position of the next name."""
        stop = bisect_right(self._keys, self._keys[start], start)
        held = [
            self._run(position).version(self._rows.lines[position], self._rows.places[position])
            for position in range(start, stop)
        ]
        return held, stop

    def _strongest(self, key: str, following: int, role: Role) -> Strength | None:
        """The strongest file in the folder of a file's name, which begins at the position that follows."""
        folder = inside_folder(key)
        if self._names.stop is not None and (folder.stop is None or folder.stop > self._names.stop):
            return self._find_strongest(folder, role)
        inside = range(following, bisect_left(self._keys, folder.stop or "", following))
        strengths = (
            self._run(position).strength(self._rows.places[position])
            for position in inside
            if self._run(position).role == role and not self._rows.summaries[position].deleted
        )
        return max(strengths, default=None)

    def _run(self, position: int) -> _Run:
        return self._runs[bisect_right(self._ends, self._positions[position])]
