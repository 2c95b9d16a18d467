"""What the commands that upload have in common: looking at the source, serving it, watching, telling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from datamon.errors import ServerUnreachable, SourceMissing, SourceUnreadable, counted, quoted, why
from datamon.model import Split as StoredSplit
from datamon.model import SplitState
from datamon.sources import is_remote
from starter.output import amount, say

if TYPE_CHECKING:
    from starter.client import Datamon, Split
    from workflows.messages import SplitReport


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


def with_progress(splits: Sequence[StoredSplit]) -> list[dict[str, Any]]:
    """Splits as they are stored, and those that run with how far they are, if their server answers."""
    running = [split for split in splits if split.state is SplitState.RUNNING]
    progress = asyncio.run(_progress(running)) if running else {}
    told: list[dict[str, Any]] = [msgspec.to_builtins(split) | {"progress": progress.get(split.id)} for split in splits]
    for one in told:
        if one["progress"] is not None:
            one |= {name: one["progress"][name] for name in ("files", "bytes", "stored")}
    return told


async def _progress(splits: Sequence[StoredSplit]) -> dict[str, dict[str, Any]]:
    from starter.client import Datamon

    try:
        async with await Datamon.connect() as datamon:
            found = await asyncio.gather(
                *(datamon.diamonds.get(split.repo, split.diamond).split(split.id).progress() for split in splits)
            )
    except ServerUnreachable:
        return {}
    return {split.id: asdict(one) for split, one in zip(splits, found, strict=True) if one is not None}


def pace(progress: dict[str, Any] | None) -> str:
    """How far a running split is, in a few words."""
    if progress is None:
        return ""
    if not progress["all_parts"]:
        return str(progress["phase"])
    share = 100 * progress["bytes"] // max(progress["all_bytes"], 1)
    parts = f"{progress['parts']}/{progress['all_parts']} parts"
    return f"{progress['phase']} {min(share, 100)} %, {parts}, {amount(progress['rate'])}/s"
