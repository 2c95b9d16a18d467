"""Repos: made once, and listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from datamon.bundles.model import Repo
from datamon.core.concurrency import map_concurrently
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, NotFound, Remedy, WrongState
from datamon.core.ids import RepoName, checked_text
from datamon.core.instants import instant
from datamon.stores import descriptors, keys
from datamon.stores.context import Context
from datamon.stores.identity import ensure_store, require_store

Result = TypeVar("Result")


def create_repo(context: Context, name: RepoName, description: str, contributor: Contributor, now: int) -> Repo:
    """Make a repo, once."""
    words = checked_text("description", description)
    ensure_store(context, now)
    repo = Repo(name=name, description=words, contributor=contributor, created=instant(now))
    try:
        context.metadata.create(keys.repo(name), descriptors.dump(repo))
    except AlreadyExists:
        try:
            _repo(context, name)
        except NotFound as error:
            raise WrongState("repo", name, "deleted", f"its name is not given again ({error.deleted})") from None
        raise AlreadyExists("repo", name) from None
    return repo


def get_repo(context: Context, name: RepoName) -> Repo:
    """One repo."""
    try:
        return _repo(context, name)
    except NotFound:
        require_store(context)
        raise


def _repo(context: Context, name: RepoName) -> Repo:
    missing = NotFound("repo", name, Remedy.CREATE_REPO)
    repo = descriptors.read(Repo, context.metadata, keys.repo(name), missing)
    if repo.deleted is not None:
        raise NotFound("repo", name, deleted=str(repo.deleted))
    return repo


def list_repos(context: Context) -> Iterator[Repo]:
    """All repos, by name."""
    names = list(context.metadata.folders(keys.REPOS))
    if not names:
        require_store(context)
    return read_existing(names, lambda name: _repo(context, RepoName(name)))


def read_existing(names: Iterable[str], read: Callable[[str], Result]) -> Iterator[Result]:
    """What there is under each name, in order. A folder whose descriptor is not there, or not yet, is left out.

    Listings read one descriptor for each thing they list, several at a time.
    """

    def read_if_there(name: str) -> Result | None:
        try:
            return read(name)
        except NotFound:
            return None

    return (result for result in map_concurrently(names, read_if_there) if result is not None)
