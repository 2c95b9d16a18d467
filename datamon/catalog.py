"""What the store says: repos, bundles, diamonds and splits, read and written one descriptor at a time.

Everything here works without Temporal. Listings read one descriptor for each thing they list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from datamon import descriptors, keys
from datamon.errors import AlreadyExists, CorruptObject, NotFound, StaleWrite
from datamon.ids import BundleId, DiamondId, RepoName, SplitId, plain_text
from datamon.model import Bundle, Contributor, Diamond, Repo, Split, instant
from datamon.stores import Context, ObjectStore

Published = TypeVar("Published", Diamond, Split)


def create_repo(context: Context, name: RepoName, description: str, contributor: Contributor, now: int) -> Repo:
    """Make a repo, once."""
    words = plain_text("description", description)
    repo = Repo(name=name, description=words, contributor=contributor, created=instant(now))
    try:
        context.metadata.create(keys.repo(name), descriptors.dump(repo))
    except AlreadyExists:
        raise AlreadyExists("repo", name) from None
    return repo


def get_repo(context: Context, name: RepoName) -> Repo:
    """One repo."""
    hint = f"make it with `datamon repo create --repo {name}`"
    return descriptors.read(Repo, context.metadata, keys.repo(name), NotFound("repo", name, hint))


def repos(context: Context) -> Iterator[Repo]:
    """All repos, by name."""
    for name in context.metadata.folders(keys.REPOS):
        with suppress(NotFound):  # a folder whose descriptor is not there, or not yet
            yield get_repo(context, RepoName(name))


def get_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    """One bundle."""
    get_repo(context, repo)
    return _bundle(context, repo, bundle)


def _bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    key = keys.bundle(repo, bundle)
    found = descriptors.read(Bundle, context.metadata, key, NotFound("bundle", bundle))
    if (found.repo, found.id) != (repo, bundle):
        raise CorruptObject(key, f"it is about bundle {found.id!r} of {found.repo!r}")
    return found


def bundles(context: Context, repo: RepoName) -> Iterator[Bundle]:
    """All bundles of a repo, the oldest first. Lists without a descriptor are a commit that has not ended."""
    get_repo(context, repo)
    for name in context.metadata.folders(keys.bundles(repo)):
        with suppress(NotFound):
            yield _bundle(context, repo, BundleId(name))


def newest_bundle(context: Context, repo: RepoName) -> BundleId | None:
    """The bundle that was made last. Ids are KSUIDs, so they sort by time."""
    for name in sorted(context.metadata.folders(keys.bundles(repo)), reverse=True):
        if context.metadata.exists(keys.bundle(repo, BundleId(name))):
            return BundleId(name)
    return None


def diamond_exists(diamond: DiamondId) -> AlreadyExists:
    """The refusal of an id that was given before."""
    return AlreadyExists("diamond", diamond, "an id is used only once; leave it out to get one")


def get_diamond(context: Context, repo: RepoName, diamond: DiamondId) -> Diamond:
    """One diamond."""
    get_repo(context, repo)
    return _diamond(context, repo, diamond)


def _diamond(context: Context, repo: RepoName, diamond: DiamondId) -> Diamond:
    hint = f"make one with `datamon diamond initialize --repo {repo}`"
    missing = NotFound("diamond", diamond, hint)
    return descriptors.read(Diamond, context.vmetadata, keys.diamond(repo, diamond), missing)


def diamonds(context: Context, repo: RepoName) -> Iterator[Diamond]:
    """All diamonds of a repo, by id."""
    get_repo(context, repo)
    for name in context.vmetadata.folders(keys.diamonds(repo)):
        with suppress(NotFound):
            yield _diamond(context, repo, DiamondId(name))


def get_split(context: Context, repo: RepoName, diamond: DiamondId, split: SplitId) -> Split:
    """One split."""
    return descriptors.read(Split, context.vmetadata, keys.split(repo, diamond, split), NotFound("split", split))


def splits(context: Context, repo: RepoName, diamond: DiamondId) -> Iterator[Split]:
    """All splits of a diamond, by id."""
    get_diamond(context, repo, diamond)
    for name in context.vmetadata.folders(keys.splits(repo, diamond)):
        with suppress(NotFound):
            yield get_split(context, repo, diamond, SplitId(name))


def publish(store: ObjectStore, key: str, descriptor: Published) -> None:
    """Put a descriptor over an older one. A write that comes late changes nothing and is told so."""
    body = descriptors.dump(descriptor)
    try:
        store.create(key, body)
    except AlreadyExists:
        seen = store.get_versioned(key)
        if seen.body == body:  # an earlier attempt of ours
            return
        if descriptors.load(type(descriptor), key, seen.body).age >= descriptor.age:
            raise StaleWrite(key) from None
        store.replace(key, body, seen.version)


def revise_split(store: ObjectStore, key: str, generation: int, change: Callable[[Split], Split]) -> Split:
    """Put the next revision of split.yaml, as long as it is about this generation. No change, no revision."""
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
