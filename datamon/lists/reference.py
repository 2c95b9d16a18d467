"""What is kept about a file list, so that most questions can be answered without opening it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from datamon.core.names import NameRange, sort_key

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Index = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z-]{0,100}\Z")]


@dataclass(frozen=True, slots=True)
class ListRef:
    """A file list, as the descriptor that refers to it knows it."""

    digest: Digest  # of its head, which holds the digests of the rest; part of the key of a bundle's list
    identity: Digest  # of its names, hashes and modes
    count: int
    bytes: int
    first: str
    last: str
    head: int  # bytes
    latest: int = 0  # the greatest timestamp in it, where that matters
    deletions: int = 0
    lost: bool = False  # it holds versions that lost; such lists of one bundle may overlap
    index: Index = ""  # part of the key of a split's list

    @property
    def start(self) -> str:
        """The sort key of its first name."""
        return sort_key(self.first)

    @property
    def end(self) -> str:
        """A sort key after all its names and everything that may lie below them."""
        return sort_key(self.last) + "\1"

    def meets(self, names: NameRange) -> bool:
        """Whether it can hold names of a range."""
        return names.meets(self.start, sort_key(self.last))
