"""What the store is known to have already: where small files of an earlier bundle lie.

Large files need no such knowledge, for each of their chunks is an object under its own hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from datamon import keys
from datamon.filelist import FileList
from datamon.model import Bundle, ListInfo
from datamon.names import EVERYTHING, NameRange, order
from datamon.stores import ObjectStore

KNOWN_ENTRIES = 200_000  # about 60 MB of a task's memory

Place = tuple[str, int]
"""(pack, offset)"""


@dataclass(frozen=True, slots=True)
class Base:
    """A bundle whose files need not be stored again."""

    bundle: Bundle
    room: int = KNOWN_ENTRIES


class Known:
    """From a hash to its place, as far as a task knows.

    Of the base it first reads what lies under the task's own names: most files of a next version are there. Only
    when one is not does it read the rest, for what was renamed. Both end when there is no more room.
    """

    def __init__(self, names: NameRange, metadata: ObjectStore, base: Base | None = None) -> None:
        self._metadata, self._base = metadata, base
        self._places: dict[str, Place] = {}
        self._rest: Iterator[ListInfo] = iter(())
        if base is not None:
            near = [info for info in base.bundle.lists if names.meets(order(info.first), order(info.last))]
            for info in near:
                if len(self._places) < base.room:
                    self._read(base, info, names)
            self._rest = self._as_fits(base, near)

    def get(self, digest: str) -> Place | None:
        """Where the bytes with this hash are."""
        place = self._places.get(digest)
        while place is None and (info := next(self._rest, None)) is not None and self._base is not None:
            self._read(self._base, info, EVERYTHING)
            place = self._places.get(digest)
        return place

    def add(self, digest: str, place: Place) -> None:
        """These bytes are in the store now."""
        self._places[digest] = place

    def _as_fits(self, base: Base, near: list[ListInfo]) -> Iterator[ListInfo]:
        room = base.room
        for info in [*near, *(info for info in base.bundle.lists if info not in near)]:
            room -= info.count
            if room >= 0:
                yield info

    def _read(self, base: Base, info: ListInfo, names: NameRange) -> None:
        key = keys.bundle_files(base.bundle.repo, base.bundle.id, info.index)
        for entry in FileList.stored(self._metadata, key, info).entries(names):
            if len(self._places) >= base.room:
                return
            if entry.at is not None:
                self._places[entry.hash] = entry.at
