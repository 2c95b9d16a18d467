"""What the commands that upload have in common: looking at the source, serving it, watching, telling."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from datamon import catalog
from datamon.errors import (
    DatamonError,
    ServerUnreachable,
    SourceMissing,
    SourceUnreadable,
    SplitFailed,
    counted,
    quoted,
    why,
)
from datamon.model import Diamond as StoredDiamond
from datamon.model import Split as StoredSplit
from datamon.model import SplitState, seconds_between
from datamon.settings import Settings
from datamon.sources import is_remote
from starter.output import amount, say

if TYPE_CHECKING:
    from starter.client import Datamon, Split
    from workflows.messages import SplitReport, SplitStatus


STOP_SECONDS = 0.2  # between attempts to stop a split that has not started


def check_source(path: str) -> None:
    """Say at once what can be seen from here; the worker looks again, and at every file."""
    if is_remote(path):
        return
    try:
        with os.scandir(path):
            pass
    except NotADirectoryError:
        if not os.access(path, os.R_OK):
            raise SourceUnreadable(path, "permission denied") from None
    except FileNotFoundError:
        raise SourceMissing(path) from None
    except OSError as error:
        raise SourceUnreadable(path, why(error)) from error


@asynccontextmanager
async def serving_source(datamon: Datamon, path: str, *, detach: bool = False) -> AsyncIterator[bool]:
    """A worker that sees the path: one that is there, or else this command, and whether it is this command.

    Any worker sees what is in S3.
    """
    if is_remote(path) or detach:
        yield False
        return
    async with datamon.serving_host() as ourselves:
        if ourselves:
            say("no worker serves this host, so this command does until the split is done")
        yield ourselves


def left_behind(split: str, *, ours: bool, told: bool) -> str:
    """What becomes of a split when the command that added it is interrupted."""
    if ours:
        return f"split {split} waits for a worker on this host, or to be added again with --split {split}"
    goes_on = "was told to stop" if told else "goes on"
    return f"split {split} {goes_on}; `datamon diamond split list` shows how it ends"


@contextmanager
def on_interrupt(remark: str) -> Iterator[None]:
    """Say what a Ctrl-C does not stop."""
    try:
        yield
    except asyncio.CancelledError:
        say(remark)
        raise


@contextmanager
def pressing() -> Iterator[asyncio.Queue[None]]:
    """Ctrl-C as something that can be waited for, as long as the block runs."""
    presses: asyncio.Queue[None] = asyncio.Queue()
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, presses.put_nowait, None)
    try:
        yield presses
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def watched(split: Split, presses: asyncio.Queue[None], *, ours: bool = False) -> SplitReport:
    """The split's report, and until it comes how far it is. The first Ctrl-C stops the split, the second leaves it."""
    from starter.progress import meter, show_progress

    result = asyncio.ensure_future(split.result())
    press = asyncio.ensure_future(presses.get())
    stopping = told = False
    try:
        with meter("upload") as seen:
            while not result.done():
                pace = STOP_SECONDS if stopping and not told else seen.pace
                await asyncio.wait([result, press], timeout=pace, return_when=asyncio.FIRST_COMPLETED)
                if press.done() and stopping:
                    say(left_behind(split.id, ours=ours, told=told))
                    raise click.Abort
                if press.done():
                    say(f"stopping split {split.id}; Ctrl-C again does not wait for that")
                    stopping, press = True, asyncio.ensure_future(presses.get())
                if stopping and not told:  # it may wait for a place, and have no workflow to be told yet
                    told = await split.stop("interrupted by its user")
                elif not result.done():
                    show_progress(seen, await split.progress())
        report = await result
        if stopping:  # it was done sooner than it could be stopped; what else the command was to do, it does not
            say(f"split {split.id} is done")
            raise click.Abort
        return report
    except SplitFailed as error:
        if not stopping:
            raise
        say(str(error))
        raise click.Abort from None
    finally:
        result.cancel()
        press.cancel()


def tell_split(report: SplitReport, path: str) -> None:
    """What an upload came to."""
    sizes = f"{amount(report.bytes)}, {amount(report.stored)} newly stored"
    say(f"split {report.split}: {counted(report.files, 'file')}, {sizes}")
    for name in report.reserved:
        say(f"skipped {name}: it is datamon's own")
    if report.skipped:
        say(f"skipped {counted(report.skipped, 'thing')} that cannot be uploaded")
    if not report.files:
        say(f"{quoted(path)} holds no files, so the split is empty")


async def as_shown(datamon: Datamon | None, splits: Sequence[StoredSplit]) -> list[dict[str, Any]]:
    """Splits as they are stored, with how long they took; and those that run with how far they are, if one can tell."""
    running = [split for split in splits if split.state is SplitState.RUNNING and split.started is not None]
    progress = await _progress(datamon, running) if running and datamon is not None else {}
    return [_shown(split, progress.get(split.id)) for split in splits]


def _shown(split: StoredSplit, progress: dict[str, Any] | None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(split)
    took = seconds_between(split.started, split.ended) if split.started and split.ended else None
    told |= {"seconds": took, "rate": int(split.bytes / took) if took and split.state is SplitState.DONE else None}
    if progress is not None:
        told |= {name: progress[name] for name in ("files", "bytes", "stored", "rate")}
        told["attempts"] = max(progress.pop("attempt"), split.attempts)
    return told | {"progress": progress}


async def _progress(datamon: Datamon, splits: Sequence[StoredSplit]) -> dict[str, dict[str, Any]]:
    diamonds = datamon.diamonds
    found = await asyncio.gather(
        *(diamonds.get(split.repo, split.diamond).split(split.id).attempt() for split in splits)
    )
    return {
        split.id: asdict(one.progress) | {"attempt": one.number}
        for split, one in zip(splits, found, strict=True)
        if one is not None
    }


@asynccontextmanager
async def perhaps_connected(needed: bool) -> AsyncIterator[Datamon | None]:  # noqa: FBT001
    """A client, if one is needed and the server answers: what the store says can be told without."""
    datamon: Datamon | None = None
    if needed:
        from starter.client import Datamon as Client

        with suppress(ServerUnreachable):
            datamon = await Client.connect()
    yield datamon


async def all_splits(datamon: Datamon | None, diamond: StoredDiamond) -> list[StoredSplit]:
    """The splits of a diamond in the order they were added, with those that wait for a place, if one can tell."""
    context = datamon.context if datamon is not None else Settings.load().context()
    stored = await asyncio.to_thread(lambda: list(catalog.splits(context, diamond.repo, diamond.id)))
    if datamon is not None and not diamond.state.ended:
        known = {split.id for split in stored}
        stored += [_waiting(diamond, split) for split in await _in_line(datamon, diamond) if split.split not in known]
    return sorted(stored, key=lambda split: (split.position, split.created, split.id))


async def _in_line(datamon: Datamon, diamond: StoredDiamond) -> list[SplitStatus]:
    """Splits that were added and wait for a place, which only the workflow knows of; none, if it cannot be asked."""
    from starter.connect import need_worker
    from workflows.names import TASK_QUEUE

    try:
        found = datamon.diamonds.get(diamond.repo, diamond.id)
        await need_worker(datamon.client, TASK_QUEUE, patience=0)
        if not (await found.status()).waiting:
            return []
        return [split for split in await found.splits() if split.waiting is not None]
    except DatamonError:
        return []


def _waiting(diamond: StoredDiamond, split: SplitStatus) -> StoredSplit:
    assert split.waiting is not None
    return StoredSplit(
        id=split.split,
        diamond=diamond.id,
        repo=diamond.repo,
        state=SplitState.RUNNING,
        generation=split.generation,
        revision=0,
        tag=split.tag,
        contributor=split.waiting.contributor,
        host=split.waiting.host,
        source=split.waiting.path,
        created=split.created,
        started=None,
        position=split.position,
    )


def pace(split: dict[str, Any]) -> str:
    """How far a running split is, in a few words."""
    progress = split["progress"]
    if progress is None:
        return "waiting for a place" if split["state"] == SplitState.RUNNING and split["started"] is None else ""
    if not progress["all_parts"]:
        return str(progress["phase"])
    share = 100 * progress["bytes"] // max(progress["all_bytes"], 1)
    parts = f"{progress['parts']}/{progress['all_parts']} parts"
    return f"{progress['phase']} {min(share, 100)} %, {parts}"
