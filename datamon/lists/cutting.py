"""Where blocks and lists begin: at names whose hash says so.

A cut depends on the name alone, not on what stands before it. So two lists that hold the same names are cut at the same
places whatever was done to them before, and wherever a merge was divided into ranges.

    name        a   b   c   d   e   f   g   h   i
    hash % 4    2   1   0   3   0   1   2   1   3
    blocks     |a   b  |c   d  |e   f   g   h   i        a block in 4 names, on average
    lists      |a   b   c   d  |e   f   g   h   i        where the hash % 8 is 0 too

Somebody could choose names that are never cut. So a block also ends when it is full, and a list at the first block
after it is full. Both limits count from its beginning, so they too depend on the names alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

BLOCK_ENTRIES = 256  # about 75 kB: what it costs to look up one name
LIST_ENTRIES = 16_384  # about 5 MB: what a change of one name rewrites


@dataclass(frozen=True, slots=True)
class Cutting:
    """How many entries blocks and lists have on average (powers of two), and at most."""

    block_entries: int = BLOCK_ENTRIES
    list_entries: int = LIST_ENTRIES
    fullness: int = 16  # the most, as a multiple of the average

    @property
    def full_block(self) -> int:
        """Entries of a block that is full."""
        return self.fullness * self.block_entries

    @property
    def full_list(self) -> int:
        """Entries of a list that is full."""
        return self.fullness * self.list_entries

    def block_starts(self, names: Iterable[str]) -> list[tuple[int, bool]]:
        """Which of these names begin a block: their positions, and whether they also begin a list."""
        block, listed = self.block_entries - 1, self.list_entries - 1
        digests = enumerate(map(xxh3_64_intdigest, map(str.encode, names)))
        return [(position, not digest & listed) for position, digest in digests if not digest & block]

    def starts_block(self, name: str) -> bool:
        """Whether a name begins a block, wherever it stands."""
        return not xxh3_64_intdigest(name.encode()) & (self.block_entries - 1)

    def starts_list(self, name: str) -> bool:
        """Whether a name begins a list, wherever it stands."""
        return not xxh3_64_intdigest(name.encode()) & (self.list_entries - 1)


USUAL = Cutting()
