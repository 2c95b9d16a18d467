"""A folder or a file of this machine.

A link to a regular file inside the source counts as that file, unless links are to be kept as links. A link that leads
out of the source, a link to a folder that would have to be followed, a device, a socket, an illegal name: the caller
decides.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import cached_property

from datamon.content.entry import FOLDER
from datamon.core.errors import SourceChanged, SourceMissing, SourceUnreadable, UnfitFile
from datamon.core.names import (
    MAX_NAME_BYTES,
    RESERVED,
    NameRange,
    inside_folder,
    is_within,
    link_problem,
    name_problem,
    sort_key,
)
from datamon.core.text import os_reason
from datamon.sources.filters import IGNORE_FILE, MAX_IGNORE_FILE
from datamon.sources.source import Links
from datamon.sources.tree import OnProblem, SourceFile, Tree


class LocalTree(Tree):
    """The Tree over the file system."""

    def read(self, file: SourceFile, start: int, length: int) -> bytes:
        """See Tree."""
        handle = self._opened(file)
        try:
            return _read(handle, file, start, length)
        finally:
            os.close(handle)

    def pieces(self, file: SourceFile, size: int) -> Iterator[bytes]:
        """See Tree. The file is opened once: another one that takes its place meanwhile does not matter."""
        handle = self._opened(file)
        try:
            changed = os.fstat(handle).st_ctime_ns
            for offset in range(0, file.size, size):
                yield _read(handle, file, offset, min(size, file.size - offset))
            if os.fstat(handle).st_ctime_ns != changed:  # whoever wrote to it has set its mtime back
                raise SourceChanged(file.name)
        finally:
            os.close(handle)

    def _opened(self, file: SourceFile) -> int:
        handle = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe by now
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SourceChanged(file.name)
            if not self._is_inside(handle):
                raise UnfitFile(file.name, "it is a link that leads out of the source")
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _is_inside(self, handle: int) -> bool:
        """Whether what was opened lies in the source. A link may have been put in its place since it was looked at."""
        try:
            return is_within(self._top, os.readlink(f"/proc/self/fd/{handle}"))
        except FileNotFoundError:  # where there is no /proc
            return True

    def reserved(self) -> list[str]:
        """See Tree."""
        return sorted(name for name in RESERVED if os.path.lexists(os.path.join(self.source.path, name)))

    def _ignored(self) -> bytes:
        if not stat.S_ISDIR(self._stat().st_mode):
            return b""
        path = os.path.join(self._top, IGNORE_FILE)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError:
            return b""
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnfitFile(IGNORE_FILE, "it is a link, and must be a regular file") from None
            raise SourceUnreadable(path, os_reason(error)) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UnfitFile(IGNORE_FILE, "it is not a regular file")
            body = os.read(handle, MAX_IGNORE_FILE + 1)
        finally:
            os.close(handle)
        if len(body) > MAX_IGNORE_FILE:
            raise UnfitFile(IGNORE_FILE, f"it has more than {MAX_IGNORE_FILE:,} bytes")
        return body

    def _all(self, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        path = self.source.path
        status = self._stat()
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path, "", self._top, names, on_problem)
        elif stat.S_ISREG(status.st_mode):
            name = os.path.basename(os.path.abspath(path))
            if name in RESERVED:
                raise UnfitFile(name, "the name is datamon's own")
            if names.holds(sort_key(name)) and self._wants(name):
                yield from _checked(name, path, status, on_problem)
        else:
            raise UnfitFile(path, "it is neither a folder nor a regular file")

    def _one(self, name: str, on_problem: OnProblem) -> Iterator[SourceFile]:
        path, top = os.path.join(self.source.path, name), self._top
        try:
            if self._keeps_links and os.path.islink(path):
                yield from _link(path, name, on_problem)
                return
            status = os.stat(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            on_problem(SourceUnreadable(path, os_reason(error)))
        else:
            yield from self._check(path, name, top, status, on_problem)

    @property
    def _keeps_links(self) -> bool:
        return self.source.links is Links.KEEP

    @cached_property
    def _top(self) -> str:
        """Where the source really is. Looked up once, however many names are listed."""
        self._stat()
        top = os.path.realpath(self.source.path)
        if self.source.real and top != self.source.path:
            raise UnfitFile(self.source.path, "a link was put in its place")
        return top

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.source.path)
        except FileNotFoundError:
            raise SourceMissing(self.source.path) from None
        except OSError as error:
            raise SourceUnreadable(self.source.path, os_reason(error)) from error

    def _folder(
        self, path: str, prefix: str, top: str, names: NameRange, on_problem: OnProblem
    ) -> Iterator[SourceFile]:
        try:
            with os.scandir(path) as scan:
                items = sorted(scan, key=lambda item: item.name)
        except OSError as error:
            on_problem(SourceUnreadable(path, os_reason(error)))
            return
        if not items and prefix and self.source.empty_folders:
            yield from self._empty_folder(path, prefix, names, on_problem)
        for item in items:
            name = prefix + item.name
            if not prefix and name in RESERVED:
                continue
            if item.is_dir(follow_symlinks=False):
                if len(os.fsencode(name)) >= MAX_NAME_BYTES:  # nothing in it can have a legal name
                    on_problem(UnfitFile(_shown(name), f"its name is longer than {MAX_NAME_BYTES} bytes"))
                    continue
                inside = inside_folder(sort_key(name))
                if names.meets(inside.start, inside.stop or "") and self.filter.enters(name):
                    yield from self._folder(item.path, name + "/", top, names, on_problem)
            elif names.holds(sort_key(name)) and self._wants(name):
                yield from self._item(item, name, top, on_problem)

    def _item(self, item: os.DirEntry[str], name: str, top: str, on_problem: OnProblem) -> Iterator[SourceFile]:
        """What is in a folder and is none itself."""
        is_link = item.is_symlink()
        try:
            if is_link and self._keeps_links:
                yield from _link(item.path, name, on_problem)
                return
            status = item.stat()
        except OSError as error:
            on_problem(SourceUnreadable(item.path, "the link leads nowhere" if is_link else os_reason(error)))
            return
        if is_link or not stat.S_ISREG(status.st_mode):
            yield from self._check(item.path, name, top, status, on_problem)
        else:
            yield from _checked(name, item.path, status, on_problem)

    def _empty_folder(self, path: str, prefix: str, names: NameRange, on_problem: OnProblem) -> Iterator[SourceFile]:
        name = prefix.removesuffix("/") + FOLDER
        if names.holds(sort_key(name)) and self._wants(prefix):
            problem = name_problem(prefix.removesuffix("/"))
            if problem is not None:
                on_problem(UnfitFile(_shown(prefix), problem))
                return
            try:
                status = os.stat(path)
            except OSError as error:
                on_problem(SourceUnreadable(path, os_reason(error)))
                return
            yield SourceFile(name, 0, stat.S_IMODE(status.st_mode), status.st_mtime_ns, path=path)

    def _check(
        self, path: str, name: str, top: str, status: os.stat_result, on_problem: OnProblem
    ) -> Iterator[SourceFile]:
        """Something that may be a link, or no file."""
        if not is_within(top, os.path.realpath(path)):
            on_problem(UnfitFile(_shown(name), "it is a link that leads out of the source"))
        elif stat.S_ISDIR(status.st_mode):
            kind = "a link to a folder" if os.path.islink(path) else "a folder"
            on_problem(UnfitFile(_shown(name), f"it is {kind}"))
        elif not stat.S_ISREG(status.st_mode):
            on_problem(UnfitFile(_shown(name), "it is not a regular file"))
        else:
            self.links_followed += os.path.islink(path)
            yield from _checked(name, path, status, on_problem)


def _read(handle: int, file: SourceFile, start: int, length: int) -> bytes:
    data = os.pread(handle, length, start)
    while len(data) < length and (more := os.pread(handle, length - len(data), start + len(data))):
        data += more
    status = os.fstat(handle)
    if len(data) != length or status.st_size != file.size or status.st_mtime_ns != file.mtime:
        raise SourceChanged(file.name)
    return data


def _link(path: str, name: str, on_problem: OnProblem) -> Iterator[SourceFile]:
    """A symbolic link that is kept as one."""
    target = os.readlink(path)
    problem = name_problem(name) or link_problem(name, target)
    if problem is not None:
        on_problem(UnfitFile(_shown(name), problem))
    else:
        yield SourceFile(name, 0, 0o777, os.lstat(path).st_mtime_ns, path=path, tag=f"link to {target}", link=target)


def _checked(name: str, path: str, status: os.stat_result, on_problem: OnProblem) -> Iterator[SourceFile]:
    problem = name_problem(name)
    if problem is not None:
        on_problem(UnfitFile(_shown(name), problem))
    else:
        yield SourceFile(
            name,
            status.st_size,
            stat.S_IMODE(status.st_mode),
            status.st_mtime_ns,
            path=path,
            inode=status.st_ino,
            device=status.st_dev,
            changed=status.st_ctime_ns,
        )


def _shown(name: str) -> str:
    """A name that may be no text at all, as text."""
    return os.fsencode(name).decode(errors="backslashreplace")
