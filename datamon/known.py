"""What the store is known to have already: where small files of an earlier bundle lie.

Large files need no such knowledge, for each of their chunks is an object under its own hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from datamon import keys
from datamon.filelist import FileList
from datamon.model import Bundle, ListInfo
from datamon.names import NameRange, order
from datamon.stores import ObjectStore

KNOWN_ENTRIES = 200_000  # about 60 MB of a task's memory

Known = dict[str, tuple[str, int]]
"""From a hash to (pack, offset)."""


def nothing_known() -> Known:
    """A store that nothing is known of."""
    return {}


@dataclass(frozen=True, slots=True)
class Base:
    """A bundle whose files need not be stored again."""

    bundle: Bundle
    room: int = KNOWN_ENTRIES

    def known(self, names: NameRange, metadata: ObjectStore) -> Known:
        """As much of the bundle as fits: first what lies under the same names, then the rest, for what was renamed."""
        known: Known = {}
        room = self.room
        for info in sorted(self.bundle.lists, key=lambda info: not _meets(info, names)):
            if info.count > room and not _meets(info, names):
                break
            room -= info.count
            key = keys.bundle_files(self.bundle.repo, self.bundle.id, info.index)
            found = FileList(key, metadata.get(key), info.digest)
            known |= {e.hash: (found.packs[e.at[0]], e.at[1]) for e in found.entries() if e.at is not None}
        return known


def _meets(info: ListInfo, names: NameRange) -> bool:
    return names.meets(order(info.first), order(info.last))
