"""Diamonds and splits in the store: read and written one descriptor at a time. None of this needs Temporal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from datamon.bundles import deletion
from datamon.bundles.model import Repo
from datamon.bundles.reader import Lists, uploaded_lists
from datamon.bundles.repos import get_repo, read_existing
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, NotFound, Remedy, StaleWrite, WrongState
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.core.text import counted
from datamon.diamonds.model import Diamond, IdReservation, Split, SplitState
from datamon.sources.skipped import Skipped, read_skipped
from datamon.stores import descriptors, keys
from datamon.stores.context import Context
from datamon.stores.protocol import ObjectStore, create_same
from datamon.stores.published import publish_next


def diamond_exists(diamond: DiamondId) -> AlreadyExists:
    """The refusal of an id that is taken."""
    return AlreadyExists("diamond", diamond, Remedy.OMIT_DIAMOND_ID)


def reserve_id(context: Context, diamond: Diamond) -> None:
    """Record that an id is taken, or raise AlreadyExists, unless an earlier attempt of ours took it."""
    taken = IdReservation(id=diamond.id, repo=diamond.repo, contributor=diamond.contributor, created=diamond.created)
    try:
        create_same(context.metadata, keys.id_reservation(diamond.repo, diamond.id), descriptors.dump(taken))
    except AlreadyExists:
        raise diamond_exists(diamond.id) from None


def open_diamond(context: Context, diamond: Diamond) -> None:
    """Put diamond.yaml for the first time. This, not Temporal, is what makes an id unique for ever."""
    get_repo(context, diamond.repo)
    reserve_id(context, diamond)
    try:
        create_same(context.vmetadata, keys.diamond(diamond.repo, diamond.id), descriptors.dump(diamond))
    except AlreadyExists:
        raise diamond_exists(diamond.id) from None


def get_diamond(context: Context, repo: RepoName, diamond: DiamondId) -> Diamond:
    """One diamond of a repo that exists."""
    get_repo(context, repo)
    return read_diamond(context, repo, diamond)


def read_diamond(context: Context, repo: RepoName, diamond: DiamondId) -> Diamond:
    """One diamond."""
    missing = NotFound("diamond", diamond, Remedy.INITIALIZE_DIAMOND, repo)
    return descriptors.read(Diamond, context.vmetadata, keys.diamond(repo, diamond), missing)


def list_diamonds(context: Context, repo: RepoName) -> Iterator[Diamond]:
    """All diamonds of a repo, by id."""
    get_repo(context, repo)
    names = context.vmetadata.folders(keys.diamonds(repo))
    return read_existing(names, lambda name: read_diamond(context, repo, DiamondId(name)))


def get_split(context: Context, repo: RepoName, diamond: DiamondId, split: SplitId) -> Split:
    """One split."""
    return descriptors.read(Split, context.vmetadata, keys.split(repo, diamond, split), NotFound("split", split))


def list_splits(context: Context, repo: RepoName, diamond: DiamondId) -> Iterator[Split]:
    """All splits of a diamond, by id."""
    get_diamond(context, repo, diamond)
    names = context.vmetadata.folders(keys.splits(repo, diamond))
    return read_existing(names, lambda name: get_split(context, repo, diamond, SplitId(name)))


def delete_repo(context: Context, repo: RepoName, contributor: Contributor, reason: str, now: int) -> Repo:
    """Delete a repo in which no diamond is open."""

    def check_unused() -> None:
        names = context.vmetadata.folders(keys.diamonds(repo))
        diamonds = read_existing(names, lambda name: read_diamond(context, repo, DiamondId(name)))
        open_ones = [diamond.id for diamond in diamonds if not diamond.state.ended]
        if open_ones:
            why = f"it has {counted(len(open_ones), 'diamond')} open, for example {open_ones[0]}"
            raise WrongState("repo", repo, "in use", why, Remedy.END_DIAMONDS)

    return deletion.delete_repo(context, repo, contributor, reason, now, check_unused)


def split_lists(context: Context, split: Split) -> Lists:
    """The file lists of a split, as far as it has recorded them."""
    return uploaded_lists(context, keys.split_folder(split.repo, split.diamond, split.id), split.lists)


def skipped_by(context: Context, split: Split) -> Iterator[Skipped]:
    """What a split left out, and why."""
    folder = keys.split_folder(split.repo, split.diamond, split.id)
    return read_skipped(context.vmetadata, folder, keys.upload_run(split.generation, split.plan))


def publish_diamond(context: Context, diamond: Diamond) -> None:
    """Put the next revision of diamond.yaml. If it is gone, housekeeping has removed it, and it is not put again."""
    publish_next(context.vmetadata, keys.diamond(diamond.repo, diamond.id), diamond)


def check_epoch(context: Context, repo: RepoName, diamond: DiamondId, epoch: str) -> None:
    """Raise StaleWrite for a split that was started before its diamond was lost and recovered."""
    if read_diamond(context, repo, diamond).epoch != epoch:
        raise StaleWrite(keys.diamond(repo, diamond))


def take_up(context: Context, diamond: Diamond, epoch: str, now: str) -> Diamond:
    """Shut out whoever worked for a diamond before. Repeated with the same epoch, it changes nothing."""
    if diamond.epoch == epoch:
        return diamond
    taken = replace(diamond, epoch=epoch, revision=diamond.revision + 1, updated=now)
    publish_diamond(context, taken)
    return taken


def revise_split(store: ObjectStore, key: str, generation: int, change: Callable[[Split], Split]) -> Split:
    """Put the next revision of split.yaml, if it is about this generation. Without a change nothing is put."""
    seen = store.get_versioned(key)
    split = descriptors.load(Split, key, seen.body)
    if split.generation != generation:
        raise StaleWrite(key)
    changed = change(split)
    if changed == split:
        return split
    revised = replace(changed, revision=split.revision + 1)
    store.replace(key, descriptors.dump(revised), seen.version)
    return revised


def end_split(store: ObjectStore, key: str, generation: int, ended: str, reason: str) -> Split:
    """End a split whose workflow is gone: keep the end that it published, or else let it fail now."""

    def end(split: Split) -> Split:
        if split.state is not SplitState.RUNNING:
            return split
        return replace(split, state=SplitState.FAILED, ended=ended, reason=reason)

    return revise_split(store, key, generation, end)
