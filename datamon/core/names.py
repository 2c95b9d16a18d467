"""File names: which are legal, and the order they stand in.

Names are compared component by component. `sort_key(name)` is a string that sorts in this order: it has NUL, which no
name may contain, in the place of `/`. A file stands right before everything below it:

    x   x/a   x/b/c   x-1   y
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_NAME_BYTES = 1024
MAX_TARGET_BYTES = 4096  # of a symbolic link
_LAST = chr(0x10FFFF)
RESERVED = frozenset({".datamon", ".conflicts", ".checkpoints"})


def name_problem(name: str, max_bytes: int = MAX_NAME_BYTES) -> str | None:
    """What is wrong with a file name, or None."""
    if name.isascii() and len(name) <= max_bytes and _is_plain(f"/{name}/"):  # nearly all are
        return None
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(encoded) > max_bytes:
        return f"its name is longer than {max_bytes} bytes"
    if "\0" in name:
        return "its name contains a NUL"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "its name is not a plain relative path"
    return None


def link_problem(name: str, target: str) -> str | None:
    """What is wrong with the target of a symbolic link, or None. One that is fine cannot lead out of its tree.

    `..` may stand only at the beginning, where it means the folders that the link really lies in. Behind the name of
    another link it could lead anywhere.
    """
    try:
        encoded = target.encode()
    except UnicodeEncodeError:
        return "its target is not UTF-8"
    if not target or len(encoded) > MAX_TARGET_BYTES or "\0" in target:
        return f"its target is empty, longer than {MAX_TARGET_BYTES} bytes or contains a NUL"
    if target.startswith("/"):
        return "it is a link to an absolute path"
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if ".." in parts[up:]:
        return "it is a link whose target has `..` behind a name"
    if up > name.count("/"):
        return "it is a link that leads out of the source"
    return None


def _is_plain(name: str) -> bool:
    """Whether an ASCII name between slashes is legal at first sight."""
    return "//" not in name and "/." not in name and "\0" not in name


def sort_key(name: str) -> str:
    """The key that names are sorted by."""
    return name.replace("/", "\0")


def name_of(key: str) -> str:
    """The name with a sort key."""
    return key.replace("\0", "/")


def ancestors(key: str) -> Iterator[str]:
    """The sort keys of the folders above, from the top."""
    end = key.find("\0")
    while end >= 0:
        yield key[:end]
        end = key.find("\0", end + 1)


def is_below(key: str, ancestor: str) -> bool:
    """Whether the first sort key lies in the folder that the second one names."""
    return key.startswith(ancestor) and key[len(ancestor) : len(ancestor) + 1] == "\0"


def is_within(top: str, path: str) -> bool:
    """Whether a path, in which there are no links any more, is a folder or lies in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class NameRange:
    """The names whose sort key k has `start <= k < stop`; a `stop` of None is the end."""

    start: str = ""
    stop: str | None = None

    def holds(self, key: str) -> bool:
        """Whether the name with this sort key is in the range."""
        return self.start <= key and (self.stop is None or key < self.stop)

    def contains(self, names: NameRange) -> bool:
        """Whether another range lies in this one."""
        ends = self.stop is None or (names.stop is not None and names.stop <= self.stop)
        return self.start <= names.start and ends

    def meets(self, first: str, last: str) -> bool:
        """Whether any sort key from first to last, both included, can be in the range."""
        return self.start <= last and (self.stop is None or first < self.stop)


EVERYTHING = NameRange()


def only_name(key: str) -> NameRange:
    """The one name with this sort key."""
    return NameRange(key, key + "\0")


def inside_folder(key: str) -> NameRange:
    """Everything in the folder with this sort key."""
    return NameRange(key + "\0", key + "\1")


# The literal text that a regular expression begins with: plain characters, and those that a backslash makes plain.
_PLAIN = re.compile(r"(?:\^|\\A)((?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s])*)([*?{+]?)")

_NO_SYNTAX = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)  # escaped characters, and sets of characters


def range_of_pattern(pattern: str) -> NameRange:
    """The range of the names in which a regular expression can be found: `^2026/03/.*csv` leads to one folder."""
    match = _PLAIN.match(pattern)
    if match is None or "(?#" in pattern or _has_alternatives(pattern):
        return EVERYTHING
    prefix = re.sub(r"\\(.)", r"\1", match[1])
    return with_prefix(prefix[:-1] if match[2] else prefix)


def _has_alternatives(pattern: str) -> bool:
    """Whether there is a `|` outside of all groups, so that a match need not begin as the pattern does."""
    depth = 0
    for char in _NO_SYNTAX.sub("", pattern):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            return True
    return False


def with_prefix(prefix: str) -> NameRange:
    """Every name that starts with this text."""
    start = sort_key(prefix)
    head = start.rstrip(_LAST)
    return NameRange(start, head[:-1] + chr(ord(head[-1]) + 1) if head else None)
