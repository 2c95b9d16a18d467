"""Roots: the list of a large file's chunks, as an object of its own."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from datamon.core.errors import CorruptObject

MAX_CHUNK_BYTES = 16 << 20  # of any root: a reader holds some dozens of them
MAX_ROOT_BYTES = 1 << 30  # that of a file of some 20 TB

_ROOT = re.compile(rb'version: 1\nsize: (\d{1,19})\nchunks:\n((?:- \["[0-9a-f]{64}", [1-9]\d{0,9}\]\n)*)')
_CHUNK = re.compile(rb'\["([0-9a-f]{64})", (\d+)\]')


class Chunk(NamedTuple):
    """A piece of a large file: the BLAKE3 of its bytes, and how many there are."""

    digest: str
    size: int


@dataclass(frozen=True)
class Root:
    """The chunks of a file, in order."""

    chunks: list[Chunk]

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self.offsets[-1]

    @cached_property
    def offsets(self) -> list[int]:
        """Where the chunks begin, and last where the file ends."""
        return list(accumulate((chunk.size for chunk in self.chunks), initial=0))

    def covering(self, start: int, stop: int) -> tuple[int, int]:
        """The chunks that hold a range of bytes: the number of the first, and of the one after the last."""
        return bisect_right(self.offsets, start) - 1, bisect_right(self.offsets, stop - 1)

    def yaml(self) -> bytes:
        """The root object."""
        lines = "".join(f'- ["{chunk.digest}", {chunk.size}]\n' for chunk in self.chunks)
        return f"version: 1\nsize: {self.size}\nchunks:\n{lines}".encode()

    @classmethod
    def read(cls, key: str, body: bytes) -> Root:
        """The root, if it is whole."""
        match = _ROOT.fullmatch(body)
        if match is None:
            raise CorruptObject(key, "it is not a list of chunks")
        root = cls([Chunk(digest.decode(), int(size)) for digest, size in _CHUNK.findall(match[2])])
        largest = max((chunk.size for chunk in root.chunks), default=0)
        if largest > MAX_CHUNK_BYTES:
            raise CorruptObject(key, f"a chunk has {largest} bytes, and at most {MAX_CHUNK_BYTES} are allowed")
        if root.size != int(match[1]):
            raise CorruptObject(key, f"`chunks` add up to {root.size} bytes, and `size` is {int(match[1])}")
        return root
