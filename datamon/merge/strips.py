"""One strip of a range: what peers and layers hold there, settled by the rules."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate, compress, count

from datamon.core.names import NameRange, inside_folder, is_below, name_of
from datamon.lists.cutting import Cutting
from datamon.lists.format import DELETED, Rows, concatenated, decode_line, decode_timestamp, no_rows, pick
from datamon.merge.inputs import Role
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


@dataclass(slots=True)
class Outcome:
    """Some names after the rules: which files are there, and what is removed from the base. Names are sort keys."""

    rows: Rows = field(default_factory=no_rows)
    block_starts: list[tuple[int, bool]] = field(default_factory=list)  # of the rows; see `Cutting.block_starts`
    contested: list[Settled] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    folders: list[NameRange] = field(default_factory=list)  # everything there is deleted
    ghosts: list[str] = field(default_factory=list)  # files that a later layer removed: the base made room for them


@dataclass(frozen=True, slots=True)
class Cover:
    """A file above others: one of a layer, or one of a peer that won against the folder of its name."""

    key: str
    strength: Strength


@dataclass(slots=True)
class Covering:
    """Files, and deletions of folders, that reach over the names that follow them."""

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
        """The deletions of folders that apply to a name, by inputs of one role."""
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
class Run:
    """What one list holds in a strip."""

    role: int
    input: str
    rank: int | None
    key: str  # of the list
    pieces: list[Rows]  # in order
    firsts: list[str]  # sort keys that blocks begin with
    has_deletions: bool = False

    def strength(self, place: bytes) -> Strength:
        """What an entry with this place is compared by."""
        rank = decode_timestamp(self.key, place) if self.rank is None else self.rank
        return self.role, rank, self.input

    def version(self, line: bytes, place: bytes) -> Version:
        """What an entry with these lines says."""
        named = decode_line(self.key, line)
        return Version(named.name, named.hash, named.size, self.strength(place), line, place)


def by_role(versions: Iterable[Version]) -> tuple[list[Version], list[Version]]:
    """Versions of peers, and those of layers."""
    roles: tuple[list[Version], list[Version]] = ([], [])
    for version in versions:
        roles[version.strength[0] == Role.LAYER].append(version)
    return roles


class Strip:
    """All that the inputs hold in a strip, as columns in name order. Most names are never looked at one by one.

    A name that is the same as the one before, or lies below it, also starts with it. So one comparison for each name,
    which Python makes in C, finds everything that may be contested.
    """

    def __init__(
        self,
        names: NameRange,
        runs: list[Run],
        covering: Covering,
        find_strongest: Callable[[NameRange, Role], Strength | None],
        cutting: Cutting,
        *,
        has_layers: bool,
    ) -> None:
        self._names, self._runs, self._covering, self._find_strongest = names, runs, covering, find_strongest
        self._ends = list(accumulate(sum(map(len, run.pieces)) for run in runs))
        self._rows = concatenated([rows for run in runs for rows in run.pieces])
        by_run = self._rows.keys
        self._order = sorted(range(len(by_run)), key=by_run.__getitem__)  # runs are sorted, so this merges them
        self._keys = keys = pick(by_run, self._order)
        self._following = keys[1:] + ([] if names.stop is None else [names.stop])
        self._cutting, self._has_layers = cutting, has_layers
        self._lost: list[int] = []  # positions, in order
        self._outcome = Outcome()

    def settle(self) -> Outcome:
        """Apply the rules to all names."""
        done = 0
        for position in self._to_settle():
            if position >= done:
                done = self._settle_name(position)
        self._covering.leave(self._names.stop)
        for position in reversed(self._lost):
            del self._order[position], self._keys[position]
        self._outcome.rows = self._rows.at(self._order, self._keys)
        self._outcome.block_starts = self._block_starts()
        return self._outcome

    def _block_starts(self) -> list[tuple[int, bool]]:
        """Which rows begin a block. A hash decides it, so only names that begin a block of an input are looked at."""
        keys = self._outcome.rows.keys
        starts: list[tuple[int, bool]] = []
        for key in sorted({key for run in self._runs for key in run.firsts}):
            position = bisect_left(keys, key)
            name = name_of(key)
            if key in keys[position : position + 1] and self._cutting.starts_block(name):
                starts.append((position, self._cutting.starts_list(name)))
        return starts

    def _to_settle(self) -> Iterable[int]:
        """The positions of names that may need the rules. Any other name has one version, which simply wins."""
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
        """The name at a position; after the last one, the name at which the strip was cut."""
        return self._following[position - 1] if position <= len(self._following) else ""

    def _versions(self, start: int) -> tuple[list[Version], int]:
        """The versions of the name at a position, and the position of the next name."""
        stop = bisect_right(self._keys, self._keys[start], start)
        held = [
            self._run(number).version(self._rows.lines[number], self._rows.places[number])
            for number in self._order[start:stop]
        ]
        return held, stop

    def _strongest(self, key: str, following: int, role: Role) -> Strength | None:
        """The strongest file in the folder of a file's name, which begins at the position `following`."""
        folder = inside_folder(key)
        if self._names.stop is not None and (folder.stop is None or folder.stop > self._names.stop):
            return self._find_strongest(folder, role)
        strengths = (
            self._run(number).strength(self._rows.places[number])
            for number in self._order[following : bisect_left(self._keys, folder.stop or "", following)]
            if self._run(number).role == role and self._rows.sizes[number] != DELETED
        )
        return max(strengths, default=None)

    def _run(self, number: int) -> Run:
        """The run that a row belongs to."""
        return self._runs[bisect_right(self._ends, number)]
