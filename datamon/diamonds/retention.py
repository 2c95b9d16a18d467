"""What may be removed of diamonds that have ended, and which diamonds look abandoned.

    canceled, long ago                              removed
    done, long ago, and its bundle is complete      removed
    done, but its bundle is not                     kept, and reported: its splits may be all there is
    open, and nothing has happened for long         reported, never removed
    leftovers of one that is gone                   removed: an upload that woke up late wrote them

Everything that a diamond has in `vmetadata` is removed, its descriptor last, so that the next run continues where one
broke off. Its bundle stays, and so does the record that its id is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from datamon.bundles.catalog import get_bundle
from datamon.bundles.model import Bundle
from datamon.bundles.reader import bundle_lists
from datamon.core.concurrency import map_concurrently
from datamon.core.errors import CorruptObject, NotFound
from datamon.core.ids import DiamondId, RepoName
from datamon.diamonds.catalog import get_diamond, list_splits
from datamon.diamonds.findings import Finding, Limits, Verdict
from datamon.diamonds.model import Diamond, DiamondState, IdReservation
from datamon.stores import descriptors, keys
from datamon.stores.context import Context


def findings(context: Context, repo: RepoName, limits: Limits, after: str = "") -> Iterator[Finding]:
    """What is to be done about the diamonds of a repo, by id, past `after`."""
    names = (name for name in context.vmetadata.folders(keys.diamonds(repo)) if name > after)
    judged = map_concurrently(names, lambda name: _finding(context, repo, DiamondId(name), limits))
    return (finding for finding in judged if finding is not None)


def _finding(context: Context, repo: RepoName, name: DiamondId, limits: Limits) -> Finding | None:
    """What is to be done about one diamond. If any part of it is damaged, it is kept."""
    try:
        return _judged(context, repo, name, limits)
    except CorruptObject as error:
        return Finding(repo, name, "unknown", "", Verdict.KEEP, str(error))


def _judged(context: Context, repo: RepoName, name: DiamondId, limits: Limits) -> Finding | None:
    try:
        diamond = get_diamond(context, repo, name)
    except NotFound:
        return _leftovers(context, repo, name, limits)
    if diamond.state.ended:
        return _ended(context, diamond, limits)
    return _silent(context, diamond, limits)


def _ended(context: Context, diamond: Diamond, limits: Limits) -> Finding | None:
    since = diamond.ended or diamond.updated
    if since >= limits.ended:
        return None
    problem = _problem(context, diamond) if diamond.state is DiamondState.DONE else None
    if problem is not None:
        return Finding(diamond.repo, diamond.id, diamond.state, since, Verdict.KEEP, problem)
    note = f"its bundle {diamond.bundle} is complete, or was deleted" if diamond.bundle else ""
    return Finding(diamond.repo, diamond.id, diamond.state, since, Verdict.REMOVE, note)


def _problem(context: Context, diamond: Diamond) -> str | None:
    """Why the bundle of a diamond cannot be relied on."""
    try:
        if diamond.bundle is None:
            return "it names no bundle"
        _check_complete(context, get_bundle(context, diamond.repo, diamond.bundle))
    except (NotFound, CorruptObject) as error:
        if isinstance(error, NotFound) and error.deleted:  # it was deleted on purpose
            return None
        return f"its bundle {diamond.bundle} is not complete: {error}"
    return None


def _check_complete(context: Context, bundle: Bundle) -> None:
    """Check that every list is whole: once the splits are gone, nothing else says what the bundle holds."""
    lists = bundle_lists(context, bundle.lists)
    for reference in bundle.lists:
        lists.open(reference).read_all()


def _silent(context: Context, diamond: Diamond, limits: Limits) -> Finding | None:
    if diamond.updated >= limits.silent:
        return None
    splits = list_splits(context, diamond.repo, diamond.id)
    moments = [instant for split in splits for instant in (split.started, split.ended) if instant is not None]
    last = max(moments, default=diamond.updated)
    if last >= limits.silent:
        return None
    note = "looks abandoned: commit, cancel or recover it"
    return Finding(diamond.repo, diamond.id, diamond.state, max(last, diamond.updated), Verdict.ABANDONED, note)


def _leftovers(context: Context, repo: RepoName, diamond: DiamondId, limits: Limits) -> Finding | None:
    """Objects of a diamond without a descriptor. They are old enough if its id was taken long ago."""
    if next(iter(context.vmetadata.keys(keys.diamond_folder(repo, diamond))), None) is None:
        return None
    try:
        taken = descriptors.read(IdReservation, context.metadata, keys.id_reservation(repo, diamond))
    except NotFound:
        return Finding(repo, diamond, "unknown", "", Verdict.KEEP, "it has no descriptor, and its id was never taken")
    if taken.created >= limits.ended:
        return None
    return Finding(repo, diamond, "gone", taken.created, Verdict.REMOVE, "written after it was removed")


def remove(context: Context, finding: Finding) -> int:
    """Remove what a diamond has in vmetadata, its descriptor last. Returns the number of objects."""
    repo, diamond = finding.repo, finding.diamond
    descriptor = keys.diamond(repo, diamond)
    parts = (key for key in context.vmetadata.keys(keys.diamond_folder(repo, diamond)) if key != descriptor)
    removed = context.vmetadata.delete_many(parts)
    context.vmetadata.delete(descriptor)
    return removed + 1
