"""Files as they are known: by name, and by where their content lies."""

from __future__ import annotations

import msgspec

SMALL_BYTES = 4 << 20  # from here on a file is worth objects of its own
PACK_BYTES = 32 << 20  # one PUT stays under a second at 50 MB/s
CHUNK_BYTES = 16 << 20  # what a failed request costs to send again

Place = tuple[str, int]
"""(pack, offset in it)"""


class FileInfo(msgspec.Struct, frozen=True, gc=False):
    """What a file is called and looks like, wherever its bytes are."""

    name: str
    size: int
    mode: int
    mtime: int  # ns since the epoch


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a split or bundle, and one entry of a file list.

    Its bytes lie at `at` (pack, offset), or in the chunks that `root` lists, or nowhere when it is empty. It says all
    there is to know, so it can be moved from list to list as it is.
    """

    name: str
    hash: str  # BLAKE3 of the content, hex
    size: int
    mode: int
    mtime: int  # of the source file, ns since the epoch
    timestamp: int  # when its upload ended, ns since the epoch
    at: Place | None = None
    root: str | None = None
