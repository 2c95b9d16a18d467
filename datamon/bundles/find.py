"""Looking for files in all bundles of a repo. A list that bundles share is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from datamon.bundles.catalog import list_bundles
from datamon.bundles.model import Bundle
from datamon.bundles.reader import bundle_lists, only_files
from datamon.content.entry import Entry
from datamon.core.globs import glob, literal_prefix
from datamon.core.ids import RepoName
from datamon.core.names import with_prefix
from datamon.lists.reference import ListRef
from datamon.stores.context import Context

FEW = 100  # entries of a list that are remembered, because other bundles may share it


def find_files(context: Context, repo: RepoName, pattern: str) -> Iterator[tuple[Bundle, Entry]]:
    """The files whose names a glob matches, in every bundle that holds them: the oldest bundle first.

    Of one bundle they come in name order, but what lost comes after what won.
    """
    finder, bundles = _Finder(context, pattern), list_bundles(context, repo)
    return ((bundle, entry) for bundle in bundles for reference in bundle.lists for entry in finder.entries(reference))


class _Finder:
    def __init__(self, context: Context, pattern: str) -> None:
        self._context = context
        self._matches = glob(pattern).match_file
        self._names = with_prefix(literal_prefix(pattern))
        self._known: dict[str, list[Entry]] = {}

    def entries(self, reference: ListRef) -> Iterable[Entry]:
        """What matches in one list."""
        if not reference.meets(self._names):
            return ()
        known = self._known.get(reference.digest)
        return known if known is not None else self._search(reference)

    def _search(self, reference: ListRef) -> Iterator[Entry]:
        found: list[Entry] = []
        for entry in only_files(bundle_lists(self._context, [reference]).entries(self._names)):
            if self._matches(entry.name):
                yield entry
                if len(found) <= FEW:
                    found.append(entry)
        if len(found) <= FEW:
            self._known[reference.digest] = found
