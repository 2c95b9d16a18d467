"""Waiting for a split, with its progress, and summarizing it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from datamon.core.errors import SplitFailed
from datamon.core.text import counted, quoted
from datamon.starter.output import amount, say

if TYPE_CHECKING:
    from datamon.starter.client import Split
    from datamon.workflows.diamonds.messages import SplitReport

STOP_SECONDS = 0.2  # between attempts to stop a split that has not started


async def wait_for_split(split: Split, pressed: asyncio.Queue[None], *, ours: bool = False) -> SplitReport:
    """The split's report, and until it comes how far it is. The first Ctrl-C stops the split, the second leaves it."""
    from datamon.starter.progress import AttemptMeter, meter

    result = asyncio.ensure_future(split.result())
    press = asyncio.ensure_future(pressed.get())
    stopping = delivered = False
    try:
        with meter("upload") as seen:
            shown = AttemptMeter(seen)
            while not result.done():
                pace = STOP_SECONDS if stopping and not delivered else seen.pace
                await asyncio.wait([result, press], timeout=pace, return_when=asyncio.FIRST_COMPLETED)
                if press.done() and stopping:
                    say(left_behind(split.id, ours=ours, delivered=delivered))
                    raise click.Abort
                if press.done():
                    say(f"stopping split {split.id}; press Ctrl-C again to exit without waiting")
                    stopping, press = True, asyncio.ensure_future(pressed.get())
                if stopping and not delivered:  # it may wait for a place, and have no workflow to be told yet
                    delivered = await split.stop("interrupted by its user")
                elif not result.done():
                    shown.show(await split.attempt())
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


def left_behind(split: str, *, ours: bool, delivered: bool) -> str:
    """What becomes of a split when the command that added it is interrupted."""
    if ours:
        return f"split {split} now waits: start a worker on this host, or add it again with --split {split}"
    goes_on = "was told to stop" if delivered else "goes on"
    return f"split {split} {goes_on}; `datamon diamond split list` shows how it ends"


NAMED = 5  # things that were left out


def summarize_split(report: SplitReport, path: str) -> None:
    """What an upload came to, and what it left out."""
    sizes = f"{amount(report.bytes)}, {amount(report.stored)} newly stored"
    say(f"split {report.split}: {counted(report.files, 'file')}, {sizes}")
    if report.links_followed:
        files = counted(report.links_followed, "symbolic link")
        say(f"followed {files}, and stored the files they lead to; --links keep keeps links")
    for name in report.reserved:
        say(f"skipped {name}: it is datamon's own")
    for one in report.skipped_sample[:NAMED]:
        say(f"skipped {quoted(one.name)}: {one.reason}")
    more = report.skipped - len(report.skipped_sample[:NAMED])
    if more > 0:
        say(f"skipped {counted(more, 'more thing')}; `datamon diamond split list skipped` shows them all")
    if not report.files:
        say(f"{quoted(path)} holds no files, so the split is empty")
