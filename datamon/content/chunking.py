"""Cutting large files into chunks, by what is in them (FastCDC).

A cut depends only on the bytes shortly before it. So where something is inserted or removed, the chunks before and
behind it are the same as before, and are in the store already. Changing a number here changes every cut: all large
files would be stored once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyfastcdc import FastCDC

MIN_CHUNK = 512 << 10
AVERAGE_CHUNK = 2 << 20  # decision 023 has the measurements
MAX_CHUNK = 8 << 20


def cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks of a file that comes in pieces of any size."""
    cutter = FastCDC(AVERAGE_CHUNK, min_size=MIN_CHUNK, max_size=MAX_CHUNK)
    rest = b""
    for piece in pieces:
        data = rest + piece if rest else piece
        done = 0
        if len(data) >= MAX_CHUNK:
            for chunk in cutter.cut_buf(data):
                if len(data) - done < MAX_CHUNK:  # what comes next may belong to this chunk
                    break
                yield data[done : done + chunk.length]
                done += chunk.length
        rest = data[done:]
    for chunk in cutter.cut_buf(rest) if rest else ():
        yield rest[chunk.offset : chunk.offset + chunk.length]
