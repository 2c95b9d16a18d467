"""Deleting bundles and repos. The descriptor stays and says who deleted what, when and why.

    bundle.yaml   deleted: who, when, why; and no lists any more. Its parents stay, so the history of others is whole
    repo.yaml     deleted: the same; nothing in the repo can be reached, and its name is not given again

Content and file lists may be those of other bundles too, so they stay here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from datamon.bundles.catalog import read_bundle
from datamon.bundles.labels import list_labels
from datamon.bundles.model import Bundle, Deleted, Repo
from datamon.bundles.repos import get_repo
from datamon.core.contributors import Contributor
from datamon.core.errors import Remedy, WrongState
from datamon.core.ids import BundleId, RepoName, checked_text
from datamon.core.instants import instant
from datamon.stores import descriptors, keys
from datamon.stores.context import Context

D = TypeVar("D", Bundle, Repo)


def delete_bundle(
    context: Context, repo: RepoName, bundle: BundleId, contributor: Contributor, reason: str, now: int
) -> Bundle:
    """Delete a bundle that no label points to. Gives what it was."""
    deleted = _deleted(contributor, reason, now)
    get_repo(context, repo)
    read_bundle(context, repo, bundle)

    def check_unused() -> None:
        labels = [label.name for label in list_labels(context, repo) if label.bundle == bundle]
        if labels:
            pointing = f"the label {labels[0]}" if len(labels) == 1 else f"the labels {', '.join(labels)}"
            raise WrongState("bundle", bundle, "in use", f"{pointing} would point to nothing", Remedy.MOVE_LABEL)

    return _replace(
        context, Bundle, keys.bundle(repo, bundle), lambda was: replace(was, lists=[], deleted=deleted), check_unused
    )


def delete_repo(
    context: Context, name: RepoName, contributor: Contributor, reason: str, now: int, check_unused: Callable[[], None]
) -> Repo:
    """Delete a repo with all that is in it, unless the check finds that it is in use."""
    deleted = _deleted(contributor, reason, now)
    get_repo(context, name)
    return _replace(context, Repo, keys.repo(name), lambda was: replace(was, deleted=deleted), check_unused)


def _replace(
    context: Context, kind: type[D], key: str, change: Callable[[D], D], check_unused: Callable[[], None]
) -> D:
    """Put the descriptor that says it is gone. Somebody may begin to use it meanwhile: then it is as it was."""
    check_unused()
    seen = context.metadata.get_versioned(key)
    was = descriptors.load(kind, key, seen.body)
    context.metadata.replace(key, descriptors.dump(change(was)), seen.version)
    try:
        check_unused()
    except WrongState:
        context.metadata.replace(key, seen.body, context.metadata.get_versioned(key).version)
        raise
    return was


def _deleted(contributor: Contributor, reason: str, now: int) -> Deleted:
    return Deleted(contributor=contributor, at=instant(now), reason=checked_text("reason", reason))
