"""Labels: movable names for bundles, with every value they ever had.

    labels/{repo}/{label}/label.yaml          where it points now
    labels/{repo}/{label}/history/{id}.yaml   where it pointed before

A value is copied into the history before it is replaced, and it is replaced only by somebody who has seen it.
So none is lost, and an attempt that comes late finds its own value there or in the history, and moves nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress

from datamon.bundles.catalog import get_bundle
from datamon.bundles.model import Label
from datamon.bundles.repos import get_repo, read_existing
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, NotFound, ObjectChanged, Remedy, WrongState
from datamon.core.ids import BundleId, LabelName, RepoName, new_id
from datamon.core.instants import instant
from datamon.stores import descriptors, keys
from datamon.stores.context import Context
from datamon.stores.protocol import create_same

ATTEMPTS = 20  # to move a label that others move at the same time: each time, one of them gets through
LONGEST_PAUSE = 0.5  # seconds between two attempts


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
    for attempt in range(ATTEMPTS):
        if _try_to_set(context, value, expected):
            return
        time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.01 * 2**attempt)))  # noqa: S311 - somebody else was faster
    raise ObjectChanged(keys.label(value.repo, value.name))


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


def list_labels(context: Context, repo: RepoName) -> Iterator[Label]:
    """All labels of a repo, by name."""
    get_repo(context, repo)
    names = context.vmetadata.folders(keys.labels(repo))
    return read_existing(names, lambda name: _label(context, repo, LabelName(name)))


def history(context: Context, repo: RepoName, name: LabelName) -> list[Label]:
    """Every value of a label, the newest first."""
    current, folder = get_label(context, repo, name), keys.label_history(repo, name)
    earlier = read_existing(context.vmetadata.keys(folder), lambda key: descriptors.read(Label, context.vmetadata, key))
    by_id = {value.id: value for value in (*earlier, current)}
    return sorted(by_id.values(), key=lambda value: (value.id == current.id, value.set, value.id), reverse=True)


def _missing(name: LabelName) -> NotFound:
    return NotFound("label", name, Remedy.LIST_LABELS)
