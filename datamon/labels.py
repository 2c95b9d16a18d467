"""Labels: movable names for bundles, with every value they ever had.

    labels/{repo}/{label}/label.yaml          where it points now
    labels/{repo}/{label}/history/{id}.yaml   where it pointed before

A value is copied into the history before it is replaced, and it is replaced only by somebody who has seen it.
So none is lost, and an attempt that comes late finds its own value there or in the history, and moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from datamon import descriptors, keys
from datamon.catalog import get_bundle, get_repo, read_all
from datamon.errors import AlreadyExists, NotFound, ObjectChanged, WrongState
from datamon.ids import BundleId, LabelName, RepoName, new_id
from datamon.model import Contributor, Label, instant
from datamon.stores import Context, create_same


def label_bundle(
    context: Context,
    repo: RepoName,
    name: LabelName,
    bundle: BundleId,
    contributor: Contributor,
    now: int,
    expected: BundleId | None = None,
) -> Label:
    """Point a label to a bundle that is there; with `expected`, only if that is where it points now."""
    get_bundle(context, repo, bundle)
    value = Label(name=name, repo=repo, bundle=bundle, contributor=contributor, set=instant(now), id=new_id())
    set_label(context, value, expected)
    return value


def set_label(context: Context, value: Label, expected: BundleId | None = None) -> None:
    """Make this the value of a label. The same value again, however late, changes nothing."""
    while not _try_to_set(context, value, expected):  # somebody else was faster: look again
        pass


def _try_to_set(context: Context, value: Label, expected: BundleId | None) -> bool:
    store, key = context.vmetadata, keys.label(value.repo, value.name)
    try:
        seen = store.get_versioned(key)
    except NotFound:
        if expected is not None:
            raise _missing(value.name) from None
        with suppress(AlreadyExists):
            store.create(key, descriptors.dump(value))
            return True
        return False
    current = descriptors.load(Label, key, seen.body)
    if current.id == value.id or store.exists(keys.old_label(value.repo, value.name, value.id)):
        return True  # an earlier attempt of ours; it may have been moved on since
    if expected not in (None, current.bundle):
        raise WrongState("label", value.name, f"at {current.bundle}", f"it was not moved, for {expected} was expected")
    create_same(store, keys.old_label(value.repo, value.name, current.id), seen.body)
    with suppress(ObjectChanged):
        store.replace(key, descriptors.dump(value), seen.version)
        return True
    return False


def get_label(context: Context, repo: RepoName, name: LabelName) -> Label:
    """Where a label points."""
    get_repo(context, repo)
    return _label(context, repo, name)


def _label(context: Context, repo: RepoName, name: LabelName) -> Label:
    return descriptors.read(Label, context.vmetadata, keys.label(repo, name), _missing(name))


def labels(context: Context, repo: RepoName) -> Iterator[Label]:
    """All labels of a repo, by name."""
    get_repo(context, repo)
    names = context.vmetadata.folders(keys.labels(repo))
    return read_all(names, lambda name: _label(context, repo, LabelName(name)))


def history(context: Context, repo: RepoName, name: LabelName) -> list[Label]:
    """Every value of a label, the newest first."""
    current, folder = get_label(context, repo, name), keys.label_history(repo, name)
    before = read_all(context.vmetadata.keys(folder), lambda key: descriptors.read(Label, context.vmetadata, key))
    by_id = {value.id: value for value in (*before, current)}
    return sorted(by_id.values(), key=lambda value: (value.id == current.id, value.set, value.id), reverse=True)


def _missing(name: LabelName) -> NotFound:
    return NotFound("label", name, "`datamon label list` shows those there are")
