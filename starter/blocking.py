"""The same client for programs without an event loop.

    with connect() as dm:
        diamond = dm.initialize("weather")
        for path in parts:
            diamond.add(path)
        bundle = diamond.commit("March", label="latest", wait=True, splits=len(parts)).bundle

Every call waits for its answer, and raises the errors of `datamon.core.errors`. An event loop on a thread of its own
does the work, so this can be used from several threads, and from within a program that has a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from datamon.bundles.catalog import list_bundles
from datamon.bundles.model import Bundle, Label, Repo
from datamon.core.ids import repo_name
from datamon.diamonds.dry_run import Preview
from datamon.merge.modes import ConflictMode, Order
from datamon.settings.settings import Settings
from datamon.starter.client import Datamon as AsyncDatamon
from datamon.starter.client import Diamond as AsyncDiamond
from datamon.starter.client import Split as AsyncSplit
from datamon.starter.client import SplitOptions
from datamon.workflows.diamonds.messages import CommitAnswer, DiamondStatus, SplitReport, SplitStatus

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
    """Reach the server and the store that the settings, by default those of this process, lead to."""
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
        self.client, self._loop = client, loop

    def create_repo(self, repo: str, description: str = "") -> Repo:
        """Make a repo, once."""
        return self._loop.wait(self.client.repos.create(repo, description))

    def repos(self) -> list[Repo]:
        """All repos, by name."""
        return self._loop.wait(self.client.repos.list())

    def bundles(self, repo: str) -> list[Bundle]:
        """All bundles of a repo, the newest last."""
        return list(list_bundles(self.client.context, repo_name(repo)))

    def initialize(self, repo: str, diamond: str | None = None, tag: str = "") -> Diamond:
        """Open a diamond. An id of your own is checked to be new, for ever."""
        return Diamond(self._loop.wait(self.client.diamonds.initialize(repo, diamond, tag)), self._loop)

    def diamond(self, repo: str, diamond: str) -> Diamond:
        """A diamond that was opened before."""
        return Diamond(self.client.diamonds.get(repo, diamond), self._loop)

    def recover(self, repo: str, diamond: str, *, server_lost: bool = False) -> Diamond:
        """Take up a diamond whose workflow is gone, from what the store says."""
        return Diamond(
            self._loop.wait(self.client.diamonds.recover(repo, diamond, server_lost=server_lost)), self._loop
        )

    def set_label(self, repo: str, label: str, bundle: str, expected: str | None = None) -> Label:
        """Point a label to a bundle; with `expected`, only if that is where it points now."""
        return self._loop.wait(self.client.labels.set(repo, label, bundle, expected))

    def label(self, repo: str, label: str) -> Label:
        """Where a label points."""
        return self._loop.wait(self.client.labels.get(repo, label))


class Diamond:
    """A diamond, as a client sees it."""

    def __init__(self, diamond: AsyncDiamond, loop: _Loop) -> None:
        self._diamond, self._loop, self.repo, self.id = diamond, loop, diamond.repo, diamond.id

    def add(self, path: str | Path, options: SplitOptions | None = None) -> Split:
        """Add what is at a path of this machine or at an s3:// URL. Returns once the diamond has accepted it."""
        return Split(self._loop.wait(self._diamond.add(path, options)), self._loop)

    def add_all(self, paths: Sequence[str | Path], options: SplitOptions | None = None) -> list[Split]:
        """Add many paths with few messages, each as a split of its own."""
        return [Split(one, self._loop) for one in self._loop.wait(self._diamond.add_all(paths, options))]

    def split(self, split: str) -> Split:
        """A split that was added before."""
        return Split(self._diamond.split(split), self._loop)

    def splits(self) -> list[SplitStatus]:
        """All splits, in the order they were added."""
        return self._loop.wait(self._diamond.splits())

    def status(self) -> DiamondStatus:
        """The diamond in numbers."""
        return self._loop.wait(self._diamond.status())

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
        label: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> CommitAnswer:
        """Make the bundle of all done splits. With `wait`, once as many as asked for were added and all ended."""
        return self._loop.wait(
            self._diamond.commit(message, mode, order, wait=wait, splits=splits, label=label, metadata=metadata)
        )

    def cancel(self, reason: str = "canceled by the user") -> None:
        """Stop all splits, wait until they have, and close the diamond without a bundle."""
        self._loop.wait(self._diamond.cancel(reason))


class Split:
    """A split, as a client sees it."""

    def __init__(self, split: AsyncSplit, loop: _Loop) -> None:
        self._split, self._loop, self.id = split, loop, split.id

    def result(self) -> SplitReport:
        """Wait for the end. SplitFailed where it failed."""
        return self._loop.wait(self._split.result())

    def stop(self, reason: str = "stopped by its user") -> bool:
        """Ask it to stop: it ends as failed, and can run again under its id. Whether there is a run to be asked."""
        return self._loop.wait(self._split.stop(reason))
