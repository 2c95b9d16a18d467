"""Which names of a source are uploaded: a regular expression, globs, and the source's own `.datamonignore`.

Globs follow the rules of .gitignore: `*.csv` in any folder, `/build` only at the top, `cache/` only a folder, a later
`!keep.csv` takes back what an earlier one said. What lies in an excluded folder is not even looked at.
"""

from __future__ import annotations

from datamon.core.errors import BadUsage, UnfitFile
from datamon.core.globs import globs
from datamon.core.text import counted
from datamon.sources.source import Source, name_pattern

IGNORE_FILE = ".datamonignore"  # at the top of a source
MAX_IGNORE_FILE = 1 << 20  # bytes


class NameFilter:
    """Decides about names, and counts those that it kept out."""

    def __init__(self, source: Source, ignored: bytes = b"") -> None:
        self._search = name_pattern(source.name_filter).search if source.name_filter else None
        self._includes = globs(source.include).match_file if source.include else None
        ignore_lines = _ignore_lines(ignored)
        self._excludes = globs([*ignore_lines, *source.exclude]).match_file if ignore_lines or source.exclude else None
        self._in_words = source.filters + ([f"the rules of {IGNORE_FILE}"] if ignore_lines else [])
        self.kept_out = 0

    def accepts(self, name: str) -> bool:
        """Whether the file with this name is uploaded."""
        accepted = (
            (self._search is None or self._search(name) is not None)
            and (self._includes is None or self._includes(name))
            and not (self._excludes is not None and self._excludes(name))
        )
        self.kept_out += not accepted
        return accepted

    def enters(self, folder: str) -> bool:
        """Whether anything in the folder with this name may be uploaded."""
        entered = self._excludes is None or not self._excludes(f"{folder}/")
        self.kept_out += not entered
        return entered

    def __str__(self) -> str:
        words = " and ".join(self._in_words)
        return f"{words} ({counted(self.kept_out, 'name')} left out)" if words else ""


def _ignore_lines(ignored: bytes) -> list[str]:
    try:
        lines = ignored.decode().splitlines()
        globs(lines)
    except (UnicodeDecodeError, BadUsage) as error:
        raise UnfitFile(IGNORE_FILE, f"its rules cannot be used: {error}") from None
    return lines
