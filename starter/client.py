"""The typed async client: what the command does, for programs.

    async with await Datamon.connect() as dm:
        diamond = await dm.diamonds.initialize(repo="weather")
        splits = [await diamond.add(path) for path in parts]      # returns as soon as the diamond has accepted it
        await asyncio.gather(*(split.result() for split in splits))
        bundle = await diamond.commit(message="March", label="latest")

Every failure is raised as one of `datamon.core.errors`, even if it happened in a worker elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from types import TracebackType
from typing import Self

from temporalio.client import Client

from datamon.bundles import labels
from datamon.bundles.catalog import list_bundles
from datamon.bundles.deletion import delete_bundle
from datamon.bundles.find import find_files
from datamon.bundles.model import Bundle, Label, Repo
from datamon.bundles.refs import resolve
from datamon.bundles.repos import create_repo, list_repos
from datamon.content.entry import Entry
from datamon.core.ids import bundle_id, label_name, repo_name
from datamon.diamonds.catalog import delete_repo
from datamon.settings.settings import Settings
from datamon.starter.diamonds import Diamond, Diamonds, SplitOptions
from datamon.starter.housekeeping import Housekeeping
from datamon.starter.splits import Split
from datamon.stores.context import Context
from datamon.worker.connection.client import connect
from datamon.worker.connection.queues import has_live_worker
from datamon.worker.telemetry import flush
from datamon.workflows.common.names import COMMAND_IDENTITY, host_queue

__all__ = ["Bundles", "Datamon", "Diamond", "Diamonds", "Housekeeping", "Labels", "Repos", "Split", "SplitOptions"]


class Datamon:
    """A connection to Temporal and to the store."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.client, self.settings = client, settings
        self.serves: set[str] = set()  # the task queues that this very process serves
        self.repos = Repos(self)
        self.diamonds = Diamonds(self)
        self.bundles = Bundles(self)
        self.labels = Labels(self)
        self.housekeeping = Housekeeping(self)

    @cached_property
    def context(self) -> Context:
        """The store. It is opened only when it is needed: boto3 is slow to load, and many calls do not need it."""
        return self.settings.context()

    @classmethod
    async def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to the server and the store of the settings, by default those of the environment."""
        settings = settings or Settings.load()
        return cls(await connect(settings), settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close: a Temporal client is its event loop's, and stores hold nothing open."""
        await asyncio.to_thread(flush, self.settings)

    @asynccontextmanager
    async def serving_host(self) -> AsyncIterator[bool]:
        """Make sure that uploads from this host are served, if need be by this process while the block runs.

        Yields whether it is this process.
        """
        queue = host_queue(self.settings.host)
        if await has_live_worker(self.client, queue):
            yield False
            return
        from datamon.worker.service import serving

        async with serving(self.client, self.settings, [queue], identity=self.client.identity + COMMAND_IDENTITY):
            self.serves.add(queue)
            try:
                yield True
            finally:
                self.serves.discard(queue)


class Repos:
    """The repos of a store."""

    def __init__(self, datamon: Datamon) -> None:
        self._datamon = datamon

    async def create(self, repo: str, description: str = "") -> Repo:
        """Make a repo. Raises AlreadyExists if there is one of that name."""
        context, contributor = self._datamon.context, self._datamon.settings.contributor
        name, now = repo_name(repo), time.time_ns()
        return await asyncio.to_thread(create_repo, context, name, description, contributor, now)

    async def list(self) -> list[Repo]:
        """All repos, by name."""
        return await asyncio.to_thread(lambda: list(list_repos(self._datamon.context)))

    async def delete(self, repo: str, reason: str = "") -> Repo:
        """Delete a repo in which no diamond is open, with all its bundles. Its name cannot be used again."""
        context, contributor = self._datamon.context, self._datamon.settings.contributor
        return await asyncio.to_thread(delete_repo, context, repo_name(repo), contributor, reason, time.time_ns())


class Bundles:
    """The bundles of a store."""

    def __init__(self, datamon: Datamon) -> None:
        self._datamon = datamon

    async def get(self, repo: str, ref: str) -> Bundle:
        """A bundle, by its id or by a label."""
        return await asyncio.to_thread(resolve, self._datamon.context, repo_name(repo), ref)

    async def find(self, repo: str, pattern: str) -> list[tuple[Bundle, Entry]]:
        """The files whose names a glob matches, with each bundle that holds them."""
        return await asyncio.to_thread(lambda: list(find_files(self._datamon.context, repo_name(repo), pattern)))

    async def list(self, repo: str) -> list[Bundle]:
        """All bundles of a repo, the newest last."""
        return await asyncio.to_thread(lambda: list(list_bundles(self._datamon.context, repo_name(repo))))

    async def delete(self, repo: str, bundle: str, reason: str = "") -> Bundle:
        """Delete a bundle that no label points to."""
        context, contributor = self._datamon.context, self._datamon.settings.contributor
        return await asyncio.to_thread(
            delete_bundle, context, repo_name(repo), bundle_id(bundle), contributor, reason, time.time_ns()
        )


class Labels:
    """The labels of a store."""

    def __init__(self, datamon: Datamon) -> None:
        self._datamon = datamon

    async def set(self, repo: str, label: str, bundle: str, expected: str | None = None) -> Label:
        """Point a label to a bundle; with `expected`, only if it points to that bundle now."""
        return await asyncio.to_thread(
            labels.label_bundle,
            self._datamon.context,
            repo_name(repo),
            label_name(label),
            bundle_id(bundle),
            self._datamon.settings.contributor,
            time.time_ns(),
            bundle_id(expected) if expected is not None else None,
        )

    async def get(self, repo: str, label: str) -> Label:
        """Where a label points."""
        return await asyncio.to_thread(labels.get_label, self._datamon.context, repo_name(repo), label_name(label))

    async def history(self, repo: str, label: str) -> list[Label]:
        """Every value of a label, the newest first."""
        return await asyncio.to_thread(labels.history, self._datamon.context, repo_name(repo), label_name(label))

    async def list(self, repo: str) -> list[Label]:
        """All labels of a repo, by name."""
        return await asyncio.to_thread(lambda: list(labels.list_labels(self._datamon.context, repo_name(repo))))
