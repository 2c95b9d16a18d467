"""Globs with the rules of .gitignore: `*.csv` in any folder, `/build` only at the top, `cache/` only a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pathspec import GitIgnoreSpec

from datamon.core.errors import BadUsage
from datamon.core.text import quoted

_MAGIC = re.compile(r"[*?\[\\!]")


def globs(patterns: Sequence[str]) -> GitIgnoreSpec:
    """Globs that make sense, or BadUsage."""
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except (ValueError, TypeError) as error:
        raise BadUsage(f"the globs {', '.join(map(quoted, patterns))[:300]} cannot be used: {error}") from None


def glob(pattern: str) -> GitIgnoreSpec:
    """One glob that can match something, or BadUsage."""
    if not pattern.strip() or pattern[0] in "#!":
        raise BadUsage(f"{quoted(pattern)} matches nothing: give a name or a glob, as in .gitignore")
    return globs([pattern.removeprefix("./")])


def literal_prefix(pattern: str) -> str:
    """The folder of all names that a glob may match; empty if they may be in any folder."""
    if "/" not in pattern.rstrip("/"):  # it may match in any folder
        return ""
    return _MAGIC.split(pattern.removeprefix("./"), maxsplit=1)[0].lstrip("/").rpartition("/")[0]
