"""Files as they are known: by name, and by where their content lies."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from blake3 import blake3

SMALL_BYTES = 2 << 20  # a file from here on is cut into chunks, for then only some of them change with it
FRAME_BYTES = 1 << 20  # of small files, compressed together: what reading one of them costs at most, but for the last
MAX_FRAME_BYTES = 16 << 20  # of any frame: as much as a reader may have to hold
PACK_BYTES = 32 << 20  # one PUT stays under a second at 50 MB/s

FOLDER = "/."  # what the name of an empty folder ends in
_NO_BYTES = blake3().hexdigest()


class Place(NamedTuple):
    """Where the bytes of a small file begin: in a pack or, if there is a length, in the frame that lies there in it."""

    pack: str
    offset: int
    start: int = 0
    length: int = 0

    @property
    def stored(self) -> tuple[str, int] | Place:
        """As short as it can be written."""
        return self if self.length else (self.pack, self.offset)


class FileInfo(msgspec.Struct, frozen=True, gc=False):
    """What a file is called and looks like, wherever its bytes are."""

    name: str
    size: int
    mode: int
    mtime: int  # ns since the epoch


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a split or bundle, and one entry of a file list.

    Its bytes lie at `at`, or in the chunks that `root` lists, or nowhere when it is empty. It says all there is to
    know, so it can be moved from list to list as it is. A symbolic link has its target in `link`. An empty folder has
    the name `folder/.`: so it lies in the folder, and is no conflict to files in it.
    """

    name: str
    hash: str  # BLAKE3 of the content, hex
    size: int
    mode: int
    mtime: int  # of the source file, ns since the epoch
    timestamp: int  # when its upload ended, ns since the epoch
    at: Place | None = None
    root: str | None = None
    link: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it stands for an empty folder."""
        return self.name.endswith(FOLDER)

    @property
    def shown(self) -> str:
        """Its name as people see it."""
        return shown_name(self.name)


def shown_name(name: str) -> str:
    """The name of an entry as people see it: that of an empty folder ends in `/`."""
    return name.removesuffix(".") if name.endswith(FOLDER) else name


def link_hash(target: str) -> str:
    """The hash of a symbolic link. No file with the target as its content has the same."""
    return blake3(b"link\0" + target.encode()).hexdigest()


def no_content(entry: Entry) -> bool:
    """Whether an entry rightly leads to no bytes: an empty file or folder, or a link that its hash vouches for."""
    if entry.link is not None:
        return entry.size == 0 and entry.hash == link_hash(entry.link)
    return entry.size == 0 and entry.hash == _NO_BYTES
