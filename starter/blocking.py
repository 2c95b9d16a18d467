"""The same client for programs without an event loop.

    with connect() as dm:
        diamond = dm.diamonds.initialize("weather")
        for path in parts:
            diamond.add(path)
        bundle = diamond.commit("March", label="latest", wait=True, splits=len(parts)).bundle

It has the classes and methods of the async client, under the same names and with the same parameters; a test checks
that. Every call waits for its answer, and raises the errors of `datamon.core.errors`. An event loop on a thread of
its own does the work, so this can be used from several threads, and from within a program that has a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from datamon.activities.spark import Progress
from datamon.bundles.model import Bundle, Label, Repo
from datamon.content.entry import Entry
from datamon.diamonds.dry_run import Preview
from datamon.diamonds.model import Diamond as StoredDiamond
from datamon.merge.modes import ConflictMode, Order
from datamon.settings.settings import Settings
from datamon.starter.attempts import Attempt
from datamon.starter.client import Bundles as AsyncBundles
from datamon.starter.client import Datamon as AsyncDatamon
from datamon.starter.client import Diamond as AsyncDiamond
from datamon.starter.client import Diamonds as AsyncDiamonds
from datamon.starter.client import Housekeeping as AsyncHousekeeping
from datamon.starter.client import Labels as AsyncLabels
from datamon.starter.client import Repos as AsyncRepos
from datamon.starter.client import Split as AsyncSplit
from datamon.starter.client import SplitOptions
from datamon.starter.housekeeping import WEEKLY, Scheduled
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.messages import CommitAnswer, DiamondStatus, SplitReport, SplitStatus
from datamon.workflows.housekeeping import HousekeepingReport

__all__ = ["Datamon", "Diamond", "Split", "SplitOptions", "connect"]

Answer = TypeVar("Answer")


class _Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="datamon-client", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Have something done there. Ctrl-C here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def connect(settings: Settings | None = None) -> Iterator[Datamon]:
    """Connect to the server and the store of the settings, by default those of this process."""
    loop = _Loop()
    try:
        client = loop.wait(AsyncDatamon.connect(settings))
        try:
            yield Datamon(client, loop)
        finally:
            loop.wait(client.__aexit__(None, None, None))
    finally:
        loop.close()


class Datamon:
    """A connection to Temporal and to the store; see `connect`."""

    def __init__(self, client: AsyncDatamon, loop: _Loop) -> None:
        self.client = client
        self.repos = Repos(client.repos, loop)
        self.diamonds = Diamonds(client.diamonds, loop)
        self.bundles = Bundles(client.bundles, loop)
        self.labels = Labels(client.labels, loop)
        self.housekeeping = Housekeeping(client.housekeeping, loop)


class Repos:
    """The repos of a store."""

    def __init__(self, repos: AsyncRepos, loop: _Loop) -> None:
        self._repos, self._loop = repos, loop

    def create(self, repo: str, description: str = "") -> Repo:
        """Make a repo. Raises AlreadyExists if there is one of that name."""
        return self._loop.wait(self._repos.create(repo, description))

    def list(self) -> list[Repo]:
        """All repos, by name."""
        return self._loop.wait(self._repos.list())

    def delete(self, repo: str, reason: str = "") -> Repo:
        """Delete a repo in which no diamond is open, with all its bundles. Its name cannot be used again."""
        return self._loop.wait(self._repos.delete(repo, reason))


class Bundles:
    """The bundles of a store."""

    def __init__(self, bundles: AsyncBundles, loop: _Loop) -> None:
        self._bundles, self._loop = bundles, loop

    def get(self, repo: str, ref: str) -> Bundle:
        """A bundle, by its id or by a label."""
        return self._loop.wait(self._bundles.get(repo, ref))

    def find(self, repo: str, pattern: str) -> list[tuple[Bundle, Entry]]:
        """The files whose names a glob matches, with each bundle that holds them."""
        return self._loop.wait(self._bundles.find(repo, pattern))

    def list(self, repo: str) -> list[Bundle]:
        """All bundles of a repo, the newest last."""
        return self._loop.wait(self._bundles.list(repo))

    def delete(self, repo: str, bundle: str, reason: str = "") -> Bundle:
        """Delete a bundle that no label points to."""
        return self._loop.wait(self._bundles.delete(repo, bundle, reason))


class Labels:
    """The labels of a store."""

    def __init__(self, labels: AsyncLabels, loop: _Loop) -> None:
        self._labels, self._loop = labels, loop

    def set(self, repo: str, label: str, bundle: str, expected: str | None = None) -> Label:
        """Point a label to a bundle; with `expected`, only if it points to that bundle now."""
        return self._loop.wait(self._labels.set(repo, label, bundle, expected))

    def get(self, repo: str, label: str) -> Label:
        """Where a label points."""
        return self._loop.wait(self._labels.get(repo, label))

    def history(self, repo: str, label: str) -> list[Label]:
        """Every value of a label, the newest first."""
        return self._loop.wait(self._labels.history(repo, label))

    def list(self, repo: str) -> list[Label]:
        """All labels of a repo, by name."""
        return self._loop.wait(self._labels.list(repo))


class Housekeeping:
    """Removing what is left of diamonds that ended long ago, in all repos of the store."""

    def __init__(self, housekeeping: AsyncHousekeeping, loop: _Loop) -> None:
        self._housekeeping, self._loop = housekeeping, loop

    def run(
        self,
        older_than: timedelta = timedelta(days=7),
        abandoned_after: timedelta = timedelta(days=30),
        *,
        dry_run: bool = False,
    ) -> HousekeepingReport:
        """Run one round now. A dry run only reports what it would do."""
        return self._loop.wait(self._housekeeping.run(older_than, abandoned_after, dry_run=dry_run))

    def attempts(self) -> list[Attempt]:
        """What the round that is under way is doing now."""
        return self._loop.wait(self._housekeeping.attempts())

    def schedule(
        self,
        cron: str = WEEKLY,
        older_than: timedelta = timedelta(days=7),
        abandoned_after: timedelta = timedelta(days=30),
    ) -> Scheduled:
        """Schedule rounds, in place of any earlier schedule. No round starts while another is still running."""
        return self._loop.wait(self._housekeeping.schedule(cron, older_than, abandoned_after))

    def scheduled(self) -> Scheduled:
        """The scheduled rounds. Raises NotFound if there are none."""
        return self._loop.wait(self._housekeeping.scheduled())

    def unschedule(self) -> None:
        """Remove the schedule."""
        self._loop.wait(self._housekeeping.unschedule())


class Diamonds:
    """The diamonds of a store."""

    def __init__(self, diamonds: AsyncDiamonds, loop: _Loop) -> None:
        self._diamonds, self._loop = diamonds, loop

    def initialize(
        self,
        repo: str,
        diamond: str | None = None,
        tag: str = "",
        options: Options | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> Diamond:
        """Open a diamond. An id of your own must never have been used. The same request gives the same diamond."""
        work = self._diamonds.initialize(repo, diamond, tag, options, metadata=metadata, request=request)
        return Diamond(self._loop.wait(work), self._loop)

    def recover(self, repo: str, diamond: str, options: Options | None = None, *, server_lost: bool = False) -> Diamond:
        """Recover a diamond whose workflow is gone, from the store: done splits count, all others are failed.

        On a server other than the one it was opened on, this needs `server_lost`: that server is lost for good.
        """
        work = self._diamonds.recover(repo, diamond, options, server_lost=server_lost)
        return Diamond(self._loop.wait(work), self._loop)

    def get(self, repo: str, diamond: str) -> Diamond:
        """A diamond that was opened before."""
        return Diamond(self._diamonds.get(repo, diamond), self._loop)


class Diamond:
    """A diamond, as a client sees it."""

    def __init__(self, diamond: AsyncDiamond, loop: _Loop) -> None:
        self._diamond, self._loop, self.repo, self.id = diamond, loop, diamond.repo, diamond.id

    def described(self) -> StoredDiamond:
        """The diamond as published in the store."""
        return self._loop.wait(self._diamond.described())

    def status(self) -> DiamondStatus:
        """The diamond in numbers, from the workflow itself."""
        return self._loop.wait(self._diamond.status())

    def add(self, path: str | Path, options: SplitOptions | None = None) -> Split:
        """Add what is at a path of this machine or at an s3:// URL.

        Returns once the diamond has accepted it; the upload goes on.
        """
        return Split(self._loop.wait(self._diamond.add(path, options)), self._loop)

    def add_all(self, paths: Sequence[str | Path], options: SplitOptions | None = None) -> list[Split]:
        """Add many paths with few messages, each as a split of its own."""
        return [Split(one, self._loop) for one in self._loop.wait(self._diamond.add_all(paths, options))]

    def split(self, split: str) -> Split:
        """A split that was added before."""
        return Split(self._diamond.split(split), self._loop)

    def splits(self) -> list[SplitStatus]:
        """All splits, in the order they were added, as the diamond sees them."""
        return self._loop.wait(self._diamond.splits())

    def attempts(self) -> list[Attempt]:
        """What the diamond itself has under way: the merge of a commit, writing its descriptor or a label."""
        return self._loop.wait(self._diamond.attempts())

    def preview(
        self, mode: ConflictMode = ConflictMode.KEEP, order: Order = Order.UPLOADED, splits: int | None = None
    ) -> Preview:
        """What a commit would do now. It changes nothing."""
        return self._loop.wait(self._diamond.preview(mode, order, splits))

    def commit(
        self,
        message: str,
        mode: ConflictMode = ConflictMode.KEEP,
        order: Order = Order.UPLOADED,
        *,
        wait: bool = False,
        splits: int | None = None,
        timeout_seconds: float | None = None,
        label: str | None = None,
        metadata: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> CommitAnswer:
        """Make the bundle of all done splits.

        With `wait`, it first waits until no split is running and at least one, or as many as `splits` says, are done.
        After `timeout_seconds` it stops waiting and fails. The workflow sets the label once the bundle exists. The same
        `request` gives the same bundle again.
        """
        work = self._diamond.commit(
            message,
            mode,
            order,
            wait=wait,
            splits=splits,
            timeout_seconds=timeout_seconds,
            label=label,
            metadata=metadata,
            request=request,
        )
        return self._loop.wait(work)

    def cancel(self, reason: str = "canceled by the user", *, request: str | None = None) -> None:
        """Stop all splits, wait until they have stopped, and close the diamond without a bundle."""
        self._loop.wait(self._diamond.cancel(reason, request=request))


class Split:
    """A split, as a client sees it."""

    def __init__(self, split: AsyncSplit, loop: _Loop) -> None:
        self._split, self._loop, self.id = split, loop, split.id

    def result(self) -> SplitReport:
        """Wait for the end. Raises SplitFailed if the split failed."""
        return self._loop.wait(self._split.result())

    def progress(self) -> Progress | None:
        """How far the upload is, from its last heartbeat; None before the first one and after the end."""
        return self._loop.wait(self._split.progress())

    def attempt(self) -> Attempt | None:
        """What is under way: uploading, or writing the split's descriptor. None before that and after the end."""
        return self._loop.wait(self._split.attempt())

    def stop(self, reason: str = "stopped by its user") -> bool:
        """Ask the split to stop: it ends as failed, and can run again under its id. Returns whether a run was asked."""
        return self._loop.wait(self._split.stop(reason))
