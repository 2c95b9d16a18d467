"""What the commands that upload have in common: looking at the source, serving it, watching, telling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from datamon.errors import DatamonError, ServerUnreachable, SourceMissing, SourceUnreadable, counted, quoted, why
from datamon.model import Diamond as StoredDiamond
from datamon.model import Split as StoredSplit
from datamon.model import SplitState
from datamon.sources import is_remote
from starter.output import amount, say

if TYPE_CHECKING:
    from starter.client import Datamon, Split
    from workflows.messages import SplitReport, SplitStatus


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


def left_behind(split: str, *, ours: bool) -> str:
    """What becomes of a split when the command that added it is interrupted."""
    if ours:
        return f"split {split} waits for a worker on this host, or to be added again with --split {split}"
    return f"split {split} goes on; `datamon diamond split list` shows how it ends"


@contextmanager
def on_interrupt(remark: str) -> Iterator[None]:
    """Say what a Ctrl-C does not stop."""
    try:
        yield
    except asyncio.CancelledError:
        say(remark)
        raise


async def watched(split: Split) -> SplitReport:
    """The split's report; on a terminal, with a progress bar until it comes."""
    from starter.progress import upload_bar

    result = asyncio.ensure_future(split.result())
    try:
        with upload_bar() as show:
            while show is not None and not (await asyncio.wait([result], timeout=0.5))[0]:
                show(await split.progress())
            return await result
    finally:
        result.cancel()


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


def as_shown(splits: Sequence[StoredSplit]) -> list[dict[str, Any]]:
    """Splits as they are stored, with how long they took; and those that run with how far they are, if one can tell."""
    running = [split for split in splits if split.state is SplitState.RUNNING and split.started is not None]
    progress = asyncio.run(_progress(running)) if running else {}
    return [_shown(split, progress.get(split.id)) for split in splits]


def _shown(split: StoredSplit, progress: dict[str, Any] | None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(split)
    took = until - since if (since := _clock(split.started)) and (until := _clock(split.ended)) else None
    told |= {"seconds": took, "rate": int(split.bytes / took) if took and split.state is SplitState.DONE else None}
    if progress is not None:
        told |= {name: progress[name] for name in ("files", "bytes", "stored", "rate")}
        told["attempts"] = max(progress.pop("attempt"), split.attempts)
    return told | {"progress": progress}


def _clock(instant: str | None) -> float | None:
    return datetime.fromisoformat(f"{instant[:26]}+00:00").timestamp() if instant else None


async def _progress(splits: Sequence[StoredSplit]) -> dict[str, dict[str, Any]]:
    from starter.client import Datamon

    try:
        async with await Datamon.connect() as datamon:
            diamonds = datamon.diamonds
            found = await asyncio.gather(
                *(diamonds.get(split.repo, split.diamond).split(split.id).attempt() for split in splits)
            )
    except ServerUnreachable:
        return {}
    return {
        split.id: asdict(one.progress) | {"attempt": one.number}
        for split, one in zip(splits, found, strict=True)
        if one is not None
    }


def waiting_splits(diamond: StoredDiamond, stored: Sequence[StoredSplit]) -> list[StoredSplit]:
    """Splits that were added and wait for a place, which only the workflow knows of; none, if it cannot be asked."""
    if diamond.state.ended:
        return []
    known = {split.id for split in stored}
    return [
        StoredSplit(
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
        for split in asyncio.run(_known_to_workflow(diamond))
        if split.waiting is not None and split.split not in known
    ]


async def _known_to_workflow(diamond: StoredDiamond) -> list[SplitStatus]:
    from starter.client import Datamon
    from starter.connect import need_worker
    from workflows.names import TASK_QUEUE

    try:
        async with await Datamon.connect() as datamon:
            found = datamon.diamonds.get(diamond.repo, diamond.id)
            await need_worker(datamon.client, TASK_QUEUE, patience=0)
            if not (await found.status()).waiting:
                return []
            return await found.splits()
    except DatamonError:
        return []


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
