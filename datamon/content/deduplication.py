"""What the store is known to hold already, so that it need not be stored again: where small files lie.

Large files need no such knowledge, for each of their chunks is an object under its own hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from datamon.content.entry import Entry, Place

KNOWN_ENTRIES = 200_000  # about 60 MB of a task's memory


class KnownContent:
    """From a hash to its place, as far as a task knows.

    When it is asked first, it learns the entries `nearby`, in an earlier bundle under the task's own names: most files
    of a next version are there. Only when one is not does it go through the `others`, for what was renamed, a batch at
    a time. Both end when there is no more room.
    """

    def __init__(
        self, nearby: Iterable[Entry] = (), others: Iterable[Iterable[Entry]] = (), room: int = KNOWN_ENTRIES
    ) -> None:
        self._room = room  # entries that may still be looked at
        self._places: dict[str, Place] = {}
        self._unread: Iterator[Iterable[Entry]] = chain([nearby], others)

    def get(self, digest: str) -> Place | None:
        """Where the bytes with this hash are."""
        place = self._places.get(digest)
        while place is None and self._room > 0 and (batch := next(self._unread, None)) is not None:
            self._learn(batch)
            place = self._places.get(digest)
        return place

    def add(self, digest: str, place: Place) -> None:
        """Take note that these bytes are in the store now."""
        self._places[digest] = place

    def _learn(self, entries: Iterable[Entry]) -> None:
        for entry in islice(entries, max(0, self._room)):
            self._room -= 1
            if entry.at is not None:
                self._places.setdefault(entry.hash, entry.at)
