"""The bundles of a repo: published once, listed, and given up where their making failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from datamon.bundles.model import Bundle
from datamon.bundles.repos import get_repo, read_existing
from datamon.core.errors import AlreadyExists, CorruptObject, Failed, NotFound, StaleWrite
from datamon.core.ids import BundleId, RepoName
from datamon.stores import descriptors, keys
from datamon.stores.context import Context
from datamon.stores.protocol import create_same

# In the place of a bundle.yaml: its commit came to nothing, and no attempt that wakes up late can make it any more.
GIVEN_UP = b"version: 1\ngiven_up: true\n"


def get_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    """One bundle of a repo that exists."""
    get_repo(context, repo)
    return read_bundle(context, repo, bundle)


def read_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    """One bundle."""
    key = keys.bundle(repo, bundle)
    try:
        body = context.metadata.get_versioned(key).body
    except NotFound:
        body = GIVEN_UP
    if body == GIVEN_UP:
        raise NotFound("bundle", bundle, repo=repo)
    result = descriptors.load(Bundle, key, body)
    if result.id != bundle:
        raise CorruptObject(key, f"it is about bundle {result.id!r}")
    if result.deleted is not None:
        raise NotFound("bundle", bundle, repo=repo, deleted=str(result.deleted))
    return result


def list_bundles(context: Context, repo: RepoName) -> Iterator[Bundle]:
    """All bundles of a repo, the oldest first."""
    get_repo(context, repo)
    names = context.metadata.folders(keys.bundles(repo))
    return read_existing(names, lambda name: read_bundle(context, repo, BundleId(name)))


def newest_bundle(context: Context, repo: RepoName) -> BundleId | None:
    """The bundle that was made last. Ids are KSUIDs, so they sort by time."""
    for name in sorted(context.metadata.folders(keys.bundles(repo)), reverse=True):
        with suppress(NotFound, CorruptObject):
            return read_bundle(context, repo, BundleId(name)).id
    return None


def _is_given_up(context: Context, key: str) -> bool:
    return context.metadata.get(key, 0, len(GIVEN_UP)) == GIVEN_UP


def publish_bundle(context: Context, repo: RepoName, bundle: Bundle) -> None:
    """Put bundle.yaml. From here on the bundle exists."""
    key = keys.bundle(repo, bundle.id)
    try:
        body = descriptors.dump_readable(key, bundle)
    except CorruptObject as error:
        raise Failed(
            f"bundle {bundle.id} has {len(bundle.lists):,} file lists, too many to describe: {error.reason}"
        ) from None
    try:
        create_same(context.metadata, key, body)
    except AlreadyExists:
        raise StaleWrite(key) if _is_given_up(context, key) else AlreadyExists("bundle", bundle.id) from None


def give_up_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle | None:
    """See to it that a bundle will never exist; or find that it does exist, and give it.

    Only its descriptor is its own. The lists that its making wrote lie under their digests, where another bundle may
    have found them, so they stay; the next commit of the same splits finds them and writes nothing.
    """
    try:
        context.metadata.create(keys.bundle(repo, bundle), GIVEN_UP)
    except AlreadyExists:
        with suppress(NotFound):
            return read_bundle(context, repo, bundle)
    return None


def check_not_given_up(context: Context, repo: RepoName, bundle: BundleId) -> None:
    """StaleWrite for an attempt that wakes up when its commit has failed long ago."""
    key = keys.bundle(repo, bundle)
    with suppress(NotFound):
        if _is_given_up(context, key):
            raise StaleWrite(key)
