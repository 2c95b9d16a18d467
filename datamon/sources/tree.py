"""The files of a source: names in order, a filter, a list of names, and reading that notices a change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cached_property

from blake3 import blake3

from datamon.content.entry import FileInfo
from datamon.core.errors import CorruptObject, DatamonError, SourceMissing
from datamon.core.names import EVERYTHING, RESERVED, NameRange, name_problem, sort_key
from datamon.sources.filters import NameFilter
from datamon.sources.source import Source
from datamon.stores.context import Context
from datamon.stores.protocol import ObjectStore


class SourceFile(FileInfo, frozen=True, gc=False, kw_only=True):
    """A file of the source. `tag` is whatever else tells one state of it from another.

    `link` is the target of a symbolic link that is kept as one. What the file system says beyond that tells whether the
    file has changed: `inode`, `device`, and `changed`, the time that nobody can set (ctime, in ns).
    """

    path: str
    tag: str = ""
    link: str | None = None
    inode: int = 0
    device: int = 0
    changed: int = 0

    @property
    def fingerprint(self) -> int:
        """A number that changes when the file does. Many files' numbers are added up, so any cut gives the same."""
        state = f"{self.name}\0{self.size}\0{self.mtime}\0{self.mode}\0{self.tag}".encode()
        return int.from_bytes(blake3(state).digest(16), "big")


OnProblem = Callable[[DatamonError], None]
"""Decides about something that cannot be uploaded: raises, or returns to go on without it."""


def refuse(error: DatamonError) -> None:
    """The OnProblem of a walk that leaves nothing out."""
    raise error


class Tree(ABC):
    """The files of a source."""

    def __init__(self, source: Source, lists: ObjectStore | None) -> None:
        self.source, self._lists = source, lists
        self.links_followed = 0

    def walk(self, names: NameRange = EVERYTHING, on_problem: OnProblem = refuse) -> Iterator[SourceFile]:
        """The files within a range of names, in name order. What cannot be uploaded is `on_problem`'s to decide.

        The walk goes on if that returns.
        """
        if not self.source.files:
            return self._all(names, on_problem)
        return self._listed(names, on_problem)

    @abstractmethod
    def read(self, file: SourceFile, start: int, length: int) -> bytes:
        """A range of a file's bytes, of the very file that was found; SourceChanged where it is no longer that."""

    def pieces(self, file: SourceFile, size: int) -> Iterator[bytes]:
        """The bytes of a file from the first to the last, so many at a time; all of them of one state of the file."""
        for offset in range(0, file.size, size):
            yield self.read(file, offset, min(size, file.size - offset))

    @abstractmethod
    def reserved(self) -> list[str]:
        """The root folders of datamon's own that are there, and are never uploaded."""

    @abstractmethod
    def _all(self, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        """What `walk` gives where there is no list of names."""

    @abstractmethod
    def _one(self, name: str, on_problem: OnProblem) -> Iterator[SourceFile]:
        """The file with this name. What else is in its place goes to `on_problem`; nothing is FileNotFoundError."""

    @abstractmethod
    def _ignored(self) -> bytes:
        """The source's own list of what not to upload; nothing, if there is none."""

    @cached_property
    def filter(self) -> NameFilter:
        """Which names are uploaded. A list of names is explicit, so what the source itself says does not count then."""
        return NameFilter(self.source, b"" if self.source.files else self._ignored())

    def _wants(self, name: str) -> bool:
        return self.filter.accepts(name)

    def _listed(self, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        assert self._lists is not None
        try:
            listed = self._lists.get(self.source.files).decode().split("\n")[:-1]
        except UnicodeDecodeError:
            raise CorruptObject(self.source.files, "it is not UTF-8") from None
        for name in listed[bisect_left(listed, names.start, key=sort_key) :]:
            if not names.holds(sort_key(name)):
                return
            if name.partition("/")[0] not in RESERVED and self._wants(name):
                problem = name_problem(name)
                if problem is not None:
                    raise CorruptObject(self.source.files, f"it has {name[:100]!r}, but {problem}")
                try:
                    yield from self._one(name, on_problem)
                except FileNotFoundError:
                    on_problem(SourceMissing(f"{self.source.path.rstrip('/')}/{name}"))


def open_tree(source: Source, context: Context | None = None) -> Tree:
    """The files of a source. A source with a list of names needs the context that the list lies in."""
    lists = context.vmetadata if context is not None else None
    if source.is_remote:
        from datamon.sources.s3 import S3Tree

        return S3Tree(source, lists)
    from datamon.sources.local import LocalTree

    return LocalTree(source, lists)
