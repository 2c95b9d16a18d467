"""What may go of diamonds that have ended, and what looks abandoned.

    canceled, long ago                              removed
    done, long ago, and its bundle is complete      removed
    done, but its bundle is not                     kept, and told: its splits may be all there is
    open, and nothing has happened for long         told, never removed
    leftovers of one that is gone                   removed: an upload that woke up late wrote them

Removed is what a diamond has in `vmetadata`: its descriptor goes last, so that a run that breaks off is taken up by
the next one. Its bundle stays, and so does the record that its id was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from datamon import catalog, descriptors, keys
from datamon.catalog import at_once
from datamon.errors import CorruptObject, NotFound
from datamon.filelist import read_whole
from datamon.ids import DiamondId, RepoName
from datamon.model import Bundle, Diamond, DiamondState, GivenId
from datamon.stores import Context


class Verdict(StrEnum):
    """What is to become of a diamond."""

    REMOVE = "remove"
    KEEP = "keep"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Limits:
    """Instants: what ended before `ended` may go; what is open and silent since before `silent` looks abandoned."""

    ended: str
    silent: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A diamond worth telling of."""

    repo: RepoName
    diamond: DiamondId
    state: str
    since: str
    verdict: Verdict
    note: str


def findings(context: Context, repo: RepoName, limits: Limits, after: str = "") -> Iterator[Finding]:
    """What is to be done about the diamonds of a repo, by id, past `after`."""
    names = (name for name in context.vmetadata.folders(keys.diamonds(repo)) if name > after)
    found = at_once(names, lambda name: _finding(context, repo, DiamondId(name), limits))
    return (one for one in found if one is not None)


def _finding(context: Context, repo: RepoName, name: DiamondId, limits: Limits) -> Finding | None:
    """What is to be done about one diamond. Whatever of it is damaged, it is kept."""
    try:
        return _judged(context, repo, name, limits)
    except CorruptObject as error:
        return Finding(repo, name, "unknown", "", Verdict.KEEP, str(error))


def _judged(context: Context, repo: RepoName, name: DiamondId, limits: Limits) -> Finding | None:
    try:
        diamond = catalog.get_diamond(context, repo, name)
    except NotFound:
        return _leftovers(context, repo, name, limits)
    if diamond.state.ended:
        return _ended(context, diamond, limits)
    return _silent(context, diamond, limits)


def _ended(context: Context, diamond: Diamond, limits: Limits) -> Finding | None:
    since = diamond.ended or diamond.updated
    if since >= limits.ended:
        return None
    flaw = _flaw(context, diamond) if diamond.state is DiamondState.DONE else None
    if flaw is not None:
        return Finding(diamond.repo, diamond.id, diamond.state, since, Verdict.KEEP, flaw)
    note = f"its bundle {diamond.bundle} is complete" if diamond.bundle else ""
    return Finding(diamond.repo, diamond.id, diamond.state, since, Verdict.REMOVE, note)


def _flaw(context: Context, diamond: Diamond) -> str | None:
    """Why the bundle of a diamond cannot be relied on."""
    try:
        if diamond.bundle is None:
            return "it names no bundle"
        _check_complete(context, catalog.get_bundle(context, diamond.repo, diamond.bundle))
    except (NotFound, CorruptObject) as error:
        return f"its bundle {diamond.bundle} is not complete: {error}"
    return None


def _check_complete(context: Context, bundle: Bundle) -> None:
    """Every list is there, byte for byte: once the splits are gone, nothing else says what the bundle holds."""
    for info in bundle.lists:
        key = keys.bundle_files(bundle.repo, bundle.id, info.index)
        read_whole(context.metadata, key, info)


def _silent(context: Context, diamond: Diamond, limits: Limits) -> Finding | None:
    if diamond.updated >= limits.silent:
        return None
    splits = catalog.splits(context, diamond.repo, diamond.id)
    heard = [instant for split in splits for instant in (split.started, split.ended) if instant is not None]
    last = max(heard, default=diamond.updated)
    if last >= limits.silent:
        return None
    note = "looks abandoned: commit, cancel or recover it"
    return Finding(diamond.repo, diamond.id, diamond.state, max(last, diamond.updated), Verdict.ABANDONED, note)


def _leftovers(context: Context, repo: RepoName, diamond: DiamondId, limits: Limits) -> Finding | None:
    """Objects of a diamond without a descriptor. They are old enough if its id was given long ago."""
    if next(iter(context.vmetadata.keys(keys.diamond_folder(repo, diamond))), None) is None:
        return None
    try:
        given = descriptors.read(GivenId, context.metadata, keys.given_id(repo, diamond))
    except NotFound:
        return Finding(repo, diamond, "unknown", "", Verdict.KEEP, "it has no descriptor, and its id was never given")
    if given.created >= limits.ended:
        return None
    return Finding(repo, diamond, "gone", given.created, Verdict.REMOVE, "written after it was removed")


def remove(context: Context, found: Finding) -> int:
    """Remove what a diamond has in vmetadata, its descriptor last. How many objects that were."""
    repo, diamond = found.repo, found.diamond
    descriptor = keys.diamond(repo, diamond)
    _keep_id(context, repo, diamond)
    parts = (key for key in context.vmetadata.keys(keys.diamond_folder(repo, diamond)) if key != descriptor)
    removed = sum(1 for _ in at_once(parts, context.vmetadata.delete))
    context.vmetadata.delete(descriptor)
    return removed + 1


def _keep_id(context: Context, repo: RepoName, diamond: DiamondId) -> None:
    """An id is never given again. One from before such records were kept gets its own now."""
    if not context.metadata.exists(keys.given_id(repo, diamond)):
        catalog.give_id(context, catalog.get_diamond(context, repo, diamond))
