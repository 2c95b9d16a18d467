"""Roots: the list of a large file's chunks, as an object of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from datamon.content.entry import CHUNK_BYTES
from datamon.core.errors import CorruptObject

MAX_CHUNK_BYTES = 1 << 30  # of any root: as much as a reader may have to hold

_ROOT = re.compile(rb"version: 1\nsize: (\d{1,19})\nchunk: ([1-9]\d{0,18})\nchunks:\n((?:- [0-9a-f]{64}\n)*)")


def root_yaml(size: int, chunks: list[str]) -> bytes:
    """The root object of a large file."""
    lines = "".join(f"- {chunk}\n" for chunk in chunks)
    return f"version: 1\nsize: {size}\nchunk: {CHUNK_BYTES}\nchunks:\n{lines}".encode()


@dataclass(frozen=True, slots=True)
class Root:
    """What a root object says."""

    size: int
    chunk: int  # bytes of every chunk but the last
    chunks: list[str]

    @classmethod
    def read(cls, key: str, body: bytes) -> Root:
        """The root, if it is whole."""
        match = _ROOT.fullmatch(body)
        if match is None:
            raise CorruptObject(key, "it is not a list of chunks")
        root = cls(int(match[1]), int(match[2]), match[3].decode().replace("- ", "").split())
        if root.chunk > MAX_CHUNK_BYTES:
            raise CorruptObject(key, f"`chunk` is {root.chunk}, and at most {MAX_CHUNK_BYTES} is allowed")
        if len(root.chunks) != -(-root.size // root.chunk):
            raise CorruptObject(key, f"`chunks` has {len(root.chunks)} for {root.size} bytes")
        return root
