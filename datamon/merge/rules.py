"""The rules: which version of a name wins, and what becomes of the others.

Among peers:
1. Of one name, the version with the greatest (rank, id) wins. The rank is the upload time, or the position of the add.
2. A losing version with the winner's content is dropped; any other is a conflict, kept under its own peer. A deletion
   is a version without content: it can win, and it can be a conflict of which nothing is kept.
3. A file against a folder of the same name (`x` and `x/y`): the side with the greatest (rank, id) wins, and what would
   have won on the other side is a conflict too. A folder is as strong as the strongest file that any peer holds in it.
4. The deletion of a folder is a deletion of every name below it that its own input does not hold.

Layers are applied to the result in their order, each as if somebody wrote it at that moment: it removes what it
deletes, what stands in the place of its files or above them, and what lies below them. The base comes before all of
them: see `overlay`.

The result is a function of the set of inputs: it does not depend on the order they come in, nor on how the names are
cut into ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from datamon.core.names import EVERYTHING, NameRange, name_of
from datamon.merge.inputs import InputId

Strength = tuple[int, int, str]
"""(role, rank, id of the input): a total order, because an input holds a name once."""


class Version(msgspec.Struct, frozen=True, gc=False):
    """What one input holds under a name. A deletion has no hash."""

    name: str
    hash: str
    size: int
    strength: Strength
    line: bytes = b""
    place: bytes = b""

    @property
    def input(self) -> InputId:
        """The input it comes from."""
        return InputId(self.strength[2])

    @property
    def deleted(self) -> bool:
        """Whether it is a deletion."""
        return not self.hash


@dataclass(frozen=True, slots=True)
class Settled:
    """One name after the rules of peers: at most one winner, and the versions that lost and differ, by input.

    Without a winner, a file or folder of the input `overruled_by` takes its place.
    """

    winner: Version | None
    conflicts: tuple[Version, ...] = ()
    overruled_by: InputId | None = None

    @property
    def file(self) -> Version | None:
        """The winner, if it is a file."""
        return self.winner if self.winner is not None and not self.winner.deleted else None

    @property
    def source(self) -> InputId:
        """The input that the name, or what takes its place, comes from."""
        source = self.winner.input if self.winner is not None else self.overruled_by
        assert source is not None
        return source


def settle(versions: Collection[Version]) -> Settled:
    """Settle one name among peers: the greatest strength wins, and what differs from it is a conflict.

    Looks at all versions at once. A "best so far" depends on arrival: of x@1, y@2, x@3 it can
    drop x@3 as a repeat of x@1 and then let y win.
    """
    winner = strongest(versions)
    conflicts = sorted((version for version in versions if version.hash != winner.hash), key=lambda v: v.input)
    return Settled(winner, tuple(conflicts))


def strongest(versions: Iterable[Version]) -> Version:
    """The version with the greatest strength."""
    return max(versions, key=lambda version: version.strength)


def overruled(settled: Settled, by: Strength | None) -> Settled:
    """The same name, given a file or folder in its place: if that is stronger, the winner is one more conflict."""
    file = settled.file
    if file is None or by is None or file.strength > by:
        return settled
    return Settled(None, tuple(sorted((file, *settled.conflicts), key=lambda v: v.input)), InputId(by[2]))


@dataclass(frozen=True, slots=True)
class FolderDeletion:
    """The deletion of everything below a folder."""

    names: NameRange
    strength: Strength

    def version(self, name: str) -> Version:
        """The version that it stands for under a name below it."""
        return Version(name, "", 0, self.strength)


def deleted_folder(key: str) -> NameRange:
    """The names that the deletion with this sort key removes. The key ends in NUL, because the name ends in `/`."""
    return EVERYTHING if key == "\0" else NameRange(key, key[:-1] + "\1")


def with_folder_deletions(
    versions: list[Version], deletions: Collection[FolderDeletion], key: str = ""
) -> list[Version]:
    """The versions of a name, with the deletions of folders that apply to it."""
    if not deletions:
        return versions
    name = versions[0].name if versions else name_of(key)
    holders = {version.input for version in versions}
    by_input = {
        one.strength[2]: one for one in sorted(deletions, key=lambda one: one.strength)
    }  # the strongest of each
    return versions + [one.version(name) for one in by_input.values() if one.strength[2] not in holders]
