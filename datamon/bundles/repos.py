"""Repos: made once, and listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from datamon.bundles.model import Repo
from datamon.core.concurrency import map_concurrently
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, NotFound, Remedy
from datamon.core.ids import RepoName, checked_text
from datamon.core.instants import instant
from datamon.stores import descriptors, keys
from datamon.stores.context import Context

Result = TypeVar("Result")


def create_repo(context: Context, name: RepoName, description: str, contributor: Contributor, now: int) -> Repo:
    """Make a repo, once."""
    words = checked_text("description", description)
    repo = Repo(name=name, description=words, contributor=contributor, created=instant(now))
    try:
        context.metadata.create(keys.repo(name), descriptors.dump(repo))
    except AlreadyExists:
        raise AlreadyExists("repo", name) from None
    return repo


def get_repo(context: Context, name: RepoName) -> Repo:
    """One repo."""
    missing = NotFound("repo", name, Remedy.CREATE_REPO)
    return descriptors.read(Repo, context.metadata, keys.repo(name), missing)


def list_repos(context: Context) -> Iterator[Repo]:
    """All repos, by name."""
    return read_existing(context.metadata.folders(keys.REPOS), lambda name: get_repo(context, RepoName(name)))


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
