"""Compression: what shrinks is stored as one zstd frame, everything else as it is.

A compressed frame or chunk says how many bytes it holds, so a reader refuses one that holds more than it may before a
byte of it is decompressed. Frames and chunks are ordinary zstd: `zstd -d` reads them.
"""

from __future__ import annotations

import threading

import zstandard

OFF = 0
USUAL_LEVEL = 3  # a tenth smaller than level 1, and no slower on two cores that also read and hash
MAX_LEVEL = 19  # above it zstd needs more memory to decompress than a reader should have to give
WORTH = 0.95  # what shrinks by less than a twentieth is not worth decompressing

MAGIC = b"\x28\xb5\x2f\xfd"  # what every zstd frame begins with


class CannotDecompress(ValueError):
    """Bytes that are not what they should be. The text says why, as the end of a sentence about the object."""


class Compressor:
    """Compresses at one level. Any number of threads may use it."""

    def __init__(self, level: int = USUAL_LEVEL) -> None:
        self._level = level
        self._own = threading.local()  # a context of zstd serves one thread at a time

    def compress(self, data: bytes) -> bytes | None:
        """The data as a frame; None if that is not worth it."""
        if self._level == OFF:
            return None
        frame = self._compressed(data)
        return frame if len(frame) < WORTH * len(data) else None

    def chunk(self, data: bytes) -> bytes:
        """A chunk as it is stored. What begins like a frame becomes one, so that a reader can tell the two apart."""
        if data.startswith(MAGIC):
            return self._compressed(data)
        return self.compress(data) or data

    def _compressed(self, data: bytes) -> bytes:
        context: zstandard.ZstdCompressor | None = getattr(self._own, "context", None)
        if context is None:
            context = self._own.context = zstandard.ZstdCompressor(level=self._level or 1, write_content_size=True)
        return context.compress(data)


def decompress(frame: bytes | memoryview, most: int) -> bytes:
    """What a frame holds; CannotDecompress if that is more than `most` bytes, or not what the frame says."""
    try:
        size = zstandard.get_frame_parameters(frame).content_size
    except zstandard.ZstdError:
        raise CannotDecompress("is not compressed in a way that this version knows") from None
    if size in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
        raise CannotDecompress("does not say how many bytes it holds")
    if size > most:
        raise CannotDecompress(f"says that it holds {size:,} bytes, and at most {most:,} are allowed")
    try:
        data = _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CannotDecompress(f"cannot be decompressed ({error})") from None
    if len(data) != size:
        raise CannotDecompress(f"holds {len(data):,} bytes and says {size:,}")
    return data


_own = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    context: zstandard.ZstdDecompressor | None = getattr(_own, "context", None)
    if context is None:
        context = _own.context = zstandard.ZstdDecompressor()
    return context


def read_chunk(stored: bytes, size: int) -> bytes:
    """The bytes of a chunk, of which its root says how many there are."""
    data = decompress(stored, size) if stored.startswith(MAGIC) else stored
    if len(data) != size:
        raise CannotDecompress(f"has {len(data):,} bytes, and its root says {size:,}")
    return data
