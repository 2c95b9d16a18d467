"""A folder or a file of this machine.

A link to a regular file inside the source counts as that file. A link that leads out of it or to a folder, a
device, a socket, an illegal name: the caller decides.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cached_property

from datamon.errors import SourceChanged, SourceMissing, SourceUnreadable, UnfitFile, why
from datamon.names import MAX_NAME_BYTES, RESERVED, NameRange, below, flaw, order
from datamon.sources.tree import Found, OnUnfit, Tree, is_within


class LocalTree(Tree):
    """The Tree over the file system."""

    def read(self, found: Found, start: int, length: int) -> bytes:
        """See Tree."""
        handle = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe by now
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SourceChanged(found.name)
            if not self._is_inside(handle):
                raise UnfitFile(found.name, "it is a link that leads out of the source")
            data = os.pread(handle, length, start)
            while len(data) < length and (more := os.pread(handle, length - len(data), start + len(data))):
                data += more
            about = os.fstat(handle)
        finally:
            os.close(handle)
        if len(data) != length or about.st_size != found.size or about.st_mtime_ns != found.mtime:
            raise SourceChanged(found.name)
        return data

    def _is_inside(self, handle: int) -> bool:
        """Whether what was opened lies in the source. A link may have been put in its place since it was looked at."""
        try:
            return is_within(self._top, os.readlink(f"/proc/self/fd/{handle}"))
        except FileNotFoundError:  # where there is no /proc
            return True

    def reserved(self) -> list[str]:
        """See Tree."""
        return sorted(name for name in RESERVED if os.path.lexists(os.path.join(self.source.path, name)))

    def _all(self, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        path = self.source.path
        about = self._about()
        if stat.S_ISDIR(about.st_mode):
            yield from self._folder(path, "", self._top, names, on_unfit)
        elif stat.S_ISREG(about.st_mode):
            name = os.path.basename(os.path.abspath(path))
            if name in RESERVED:
                raise UnfitFile(name, "the name is datamon's own")
            if names.holds(order(name)) and self._wants(name):
                yield from _found(name, path, about, on_unfit)
        else:
            raise UnfitFile(path, "it is neither a folder nor a regular file")

    def _one(self, name: str, on_unfit: OnUnfit) -> Iterator[Found]:
        path, top = os.path.join(self.source.path, name), self._top
        try:
            about = os.stat(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            on_unfit(SourceUnreadable(path, why(error)))
        else:
            yield from _look(path, name, top, about, on_unfit)

    @cached_property
    def _top(self) -> str:
        """Where the source really is. Looked up once, however many names are listed."""
        self._about()
        top = os.path.realpath(self.source.path)
        if self.source.real and top != self.source.path:
            raise UnfitFile(self.source.path, "a link was put in its place")
        return top

    def _about(self) -> os.stat_result:
        try:
            return os.stat(self.source.path)
        except FileNotFoundError:
            raise SourceMissing(self.source.path) from None
        except OSError as error:
            raise SourceUnreadable(self.source.path, why(error)) from error

    def _folder(self, path: str, prefix: str, top: str, names: NameRange, on_unfit: OnUnfit) -> Iterator[Found]:
        try:
            with os.scandir(path) as scan:
                items = sorted(scan, key=lambda item: item.name)
        except OSError as error:
            on_unfit(SourceUnreadable(path, why(error)))
            return
        for item in items:
            name = prefix + item.name
            if not prefix and name in RESERVED:
                continue
            if item.is_dir(follow_symlinks=False):
                if len(os.fsencode(name)) >= MAX_NAME_BYTES:  # nothing in it can have a legal name
                    on_unfit(UnfitFile(_shown(name), f"its name is longer than {MAX_NAME_BYTES} bytes"))
                    continue
                inside = below(order(name))
                if names.meets(inside.start, inside.stop or ""):
                    yield from self._folder(item.path, name + "/", top, names, on_unfit)
            elif names.holds(order(name)) and self._wants(name):
                try:
                    about = item.stat()
                except OSError as error:
                    on_unfit(SourceUnreadable(item.path, "the link leads nowhere" if item.is_symlink() else why(error)))
                    continue
                if item.is_symlink() or not stat.S_ISREG(about.st_mode):
                    yield from _look(item.path, name, top, about, on_unfit)
                else:
                    yield from _found(name, item.path, about, on_unfit)


def _look(path: str, name: str, top: str, about: os.stat_result, on_unfit: OnUnfit) -> Iterator[Found]:
    """Something that may be a link, or no file."""
    if not is_within(top, os.path.realpath(path)):
        on_unfit(UnfitFile(_shown(name), "it is a link that leads out of the source"))
    elif stat.S_ISDIR(about.st_mode):
        kind = "a link to a folder" if os.path.islink(path) else "a folder"
        on_unfit(UnfitFile(_shown(name), f"it is {kind}"))
    elif not stat.S_ISREG(about.st_mode):
        on_unfit(UnfitFile(_shown(name), "it is not a regular file"))
    else:
        yield from _found(name, path, about, on_unfit)


def _found(name: str, path: str, about: os.stat_result, on_unfit: OnUnfit) -> Iterator[Found]:
    wrong = flaw(name)
    if wrong is not None:
        on_unfit(UnfitFile(_shown(name), wrong))
    else:
        yield Found(name, path, about.st_size, stat.S_IMODE(about.st_mode), about.st_mtime_ns)


def _shown(name: str) -> str:
    """A name that may be no text at all, as text."""
    return os.fsencode(name).decode(errors="backslashreplace")
