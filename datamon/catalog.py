"""What the store says: repos, bundles, diamonds and splits, read and written one descriptor at a time.

Everything here works without Temporal. Listings read one descriptor for each thing they list, many at a time, and
go on to the last page however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from datamon import descriptors, keys
from datamon.errors import AlreadyExists, CorruptObject, NotFound, StaleWrite, StoreRefused
from datamon.ids import BundleId, DiamondId, RepoName, SplitId, plain_text
from datamon.model import Bundle, Contributor, Diamond, GivenId, Repo, Split, SplitState, instant
from datamon.stores import Context, ObjectStore, Versioned, create_same

READERS = 16  # descriptors read at a time: a round trip to S3 is mostly waiting
READ_AHEAD = 256

# In the place of a bundle.yaml: its commit came to nothing, and no attempt that wakes up late can make it any more.
GIVEN_UP = b"version: 1\ngiven_up: true\n"

Published = TypeVar("Published", Diamond, Split)
Item = TypeVar("Item")
Found = TypeVar("Found")


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
    return read_all(context.metadata.folders(keys.REPOS), lambda name: get_repo(context, RepoName(name)))


def read_all(names: Iterable[str], read: Callable[[str], Found]) -> Iterator[Found]:
    """What there is under each name, in order. A folder whose descriptor is not there, or not yet, is left out."""

    def found(name: str) -> Found | None:
        try:
            return read(name)
        except NotFound:
            return None

    return (one for one in at_once(names, found) if one is not None)


def at_once(items: Iterable[Item], work: Callable[[Item], Found]) -> Iterator[Found]:
    """Do the work on several items at a time, a limited number ahead of who uses the results, which come in order."""
    rest = iter(items)
    with ThreadPoolExecutor(READERS) as pool:
        while some := list(islice(rest, READ_AHEAD)):
            yield from pool.map(work, some)


def get_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    """One bundle."""
    get_repo(context, repo)
    return _bundle(context, repo, bundle)


def _bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle:
    key = keys.bundle(repo, bundle)
    try:
        body = context.metadata.get_versioned(key).body
    except NotFound:
        body = GIVEN_UP
    if body == GIVEN_UP:
        raise NotFound("bundle", bundle)
    found = descriptors.load(Bundle, key, body)
    if (found.repo, found.id) != (repo, bundle):
        raise CorruptObject(key, f"it is about bundle {found.id!r} of {found.repo!r}")
    return found


def bundles(context: Context, repo: RepoName) -> Iterator[Bundle]:
    """All bundles of a repo, the oldest first. Lists without a descriptor are a commit that has not ended."""
    get_repo(context, repo)
    names = context.metadata.folders(keys.bundles(repo))
    return read_all(names, lambda name: _bundle(context, repo, BundleId(name)))


def newest_bundle(context: Context, repo: RepoName) -> BundleId | None:
    """The bundle that was made last. Ids are KSUIDs, so they sort by time."""
    for name in sorted(context.metadata.folders(keys.bundles(repo)), reverse=True):
        with suppress(NotFound):
            if not _is_given_up(context, keys.bundle(repo, BundleId(name))):
                return BundleId(name)
    return None


def _is_given_up(context: Context, key: str) -> bool:
    return context.metadata.get(key, 0, len(GIVEN_UP)) == GIVEN_UP


def publish_bundle(context: Context, bundle: Bundle) -> None:
    """Put bundle.yaml. From here on the bundle exists."""
    key = keys.bundle(bundle.repo, bundle.id)
    try:
        create_same(context.metadata, key, descriptors.dump(bundle))
    except AlreadyExists:
        raise StaleWrite(key) if _is_given_up(context, key) else AlreadyExists("bundle", bundle.id) from None


def give_up_bundle(context: Context, repo: RepoName, bundle: BundleId) -> Bundle | None:
    """See to it that a bundle will never exist, and remove its lists; or find that it does exist, and give it."""
    try:
        context.metadata.create(keys.bundle(repo, bundle), GIVEN_UP)
    except AlreadyExists:
        with suppress(NotFound):
            return _bundle(context, repo, bundle)
    with suppress(StoreRefused):  # where nobody may delete in `metadata`, lists that nobody points to stay
        for _ in at_once(context.metadata.keys(keys.bundle_lists(repo, bundle)), context.metadata.delete):
            pass
    return None


def check_not_given_up(context: Context, repo: RepoName, bundle: BundleId) -> None:
    """StaleWrite for an attempt that wakes up when its commit has failed long ago."""
    key = keys.bundle(repo, bundle)
    with suppress(NotFound):
        if _is_given_up(context, key):
            raise StaleWrite(key)


def diamond_exists(diamond: DiamondId) -> AlreadyExists:
    """The refusal of an id that was given before."""
    return AlreadyExists("diamond", diamond, "an id is used only once; leave it out to get one")


def give_id(context: Context, diamond: Diamond) -> None:
    """Record that an id is taken, or AlreadyExists. The same diamond again is an earlier attempt of ours."""
    given = GivenId(id=diamond.id, repo=diamond.repo, contributor=diamond.contributor, created=diamond.created)
    try:
        create_same(context.metadata, keys.given_id(diamond.repo, diamond.id), descriptors.dump(given))
    except AlreadyExists:
        raise diamond_exists(diamond.id) from None


def open_diamond(context: Context, diamond: Diamond) -> None:
    """Put diamond.yaml for the first time. This, not Temporal, is what makes an id unique for ever."""
    get_repo(context, diamond.repo)
    give_id(context, diamond)
    try:
        create_same(context.vmetadata, keys.diamond(diamond.repo, diamond.id), descriptors.dump(diamond))
    except AlreadyExists:
        raise diamond_exists(diamond.id) from None


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
    names = context.vmetadata.folders(keys.diamonds(repo))
    return read_all(names, lambda name: _diamond(context, repo, DiamondId(name)))


def get_split(context: Context, repo: RepoName, diamond: DiamondId, split: SplitId) -> Split:
    """One split."""
    return descriptors.read(Split, context.vmetadata, keys.split(repo, diamond, split), NotFound("split", split))


def splits(context: Context, repo: RepoName, diamond: DiamondId) -> Iterator[Split]:
    """All splits of a diamond, by id."""
    get_diamond(context, repo, diamond)
    names = context.vmetadata.folders(keys.splits(repo, diamond))
    return read_all(names, lambda name: get_split(context, repo, diamond, SplitId(name)))


def publish_diamond(context: Context, diamond: Diamond) -> None:
    """Put the next revision of diamond.yaml. One that is gone is not put again: housekeeping has removed it."""
    key = keys.diamond(diamond.repo, diamond.id)
    try:
        seen = context.vmetadata.get_versioned(key)
    except NotFound:
        raise StaleWrite(key) from None
    _supersede(context.vmetadata, key, diamond, seen)


def check_epoch(context: Context, repo: RepoName, diamond: DiamondId, epoch: str) -> None:
    """StaleWrite for a split that an earlier workflow of its diamond started, before that was lost and recovered."""
    key = keys.diamond(repo, diamond)
    if descriptors.read(Diamond, context.vmetadata, key, NotFound("diamond", diamond)).epoch != epoch:
        raise StaleWrite(key)


def take_up(context: Context, diamond: Diamond, epoch: str, now: str) -> Diamond:
    """Shut out whoever worked for a diamond before. Done again by the same, it changes nothing."""
    if diamond.epoch == epoch:
        return diamond
    taken = replace(diamond, epoch=epoch, revision=diamond.revision + 1, updated=now)
    publish_diamond(context, taken)
    return taken


def publish(store: ObjectStore, key: str, descriptor: Published) -> None:
    """Put a descriptor over an older one. A write that comes late changes nothing and is told so."""
    try:
        store.create(key, descriptors.dump(descriptor))
    except AlreadyExists:
        _supersede(store, key, descriptor, store.get_versioned(key))


def _supersede(store: ObjectStore, key: str, descriptor: Published, seen: Versioned) -> None:
    """Put a descriptor over the one that was seen there, if that is older."""
    body = descriptors.dump(descriptor)
    if seen.body == body:  # an earlier attempt of ours
        return
    if descriptors.load(type(descriptor), key, seen.body).age >= descriptor.age:
        raise StaleWrite(key)
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


def end_split(store: ObjectStore, key: str, generation: int, ended: str, reason: str) -> Split:
    """How a split ended whose workflow is gone: as it published itself, or else as failed, here and now."""

    def end(split: Split) -> Split:
        if split.state is not SplitState.RUNNING:
            return split
        return replace(split, state=SplitState.FAILED, ended=ended, reason=reason)

    return revise_split(store, key, generation, end)
