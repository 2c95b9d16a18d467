"""`split list --watch`: one line a split with a bar, redrawn on a terminal; where there is none, a line a change."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from datamon.core.ids import DiamondId, RepoName
from datamon.diamonds.catalog import get_diamond
from datamon.diamonds.model import SplitState
from datamon.starter.commands.diamond.split_listing import all_splits, progress_note, with_progress
from datamon.starter.output import amount, uses_colours, visible

if TYPE_CHECKING:
    from rich.table import Table

    from datamon.starter.client import Datamon

SECONDS = 1
_STEP = 10  # per cent, between two lines on the same split

Rows = list[dict[str, Any]]
Show = Callable[[Rows], None]


async def watch(datamon: Datamon, repo: RepoName, diamond: DiamondId, state: str | None) -> None:
    """Show the splits of a diamond until all have ended, or the diamond has."""
    with _screen() if sys.stdout.isatty() else _log() as show:
        while True:
            described = await asyncio.to_thread(get_diamond, datamon.context, repo, diamond)
            splits = await all_splits(datamon, described)
            show(await with_progress(datamon, [split for split in splits if state in (None, split.state)]))
            running = any(split.state is SplitState.RUNNING for split in splits)
            if described.state.ended or (splits and not running):
                return
            await asyncio.sleep(SECONDS)


@contextmanager
def _screen() -> Iterator[Show]:
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=not uses_colours(sys.stdout))
    with Live(console=console, auto_refresh=False) as live:

        def show(rows: Rows) -> None:
            live.update(_table(rows), refresh=True)

        yield show


def _table(rows: Rows) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="")
    for column in ("SPLIT", "TAG", "STATE", "", "FILES", "BYTES", "RATE", "NOTE"):
        table.add_column(column, no_wrap=column != "NOTE", justify="right" if column in ("FILES", "BYTES") else "left")
    for row in rows:
        state, done = row["state"], _share(row)
        table.add_row(
            row["id"],
            Text(visible(row["tag"])),
            Text(state, style={"done": "green", "failed": "red"}.get(state, "cyan")),
            ProgressBar(total=100, completed=done or 0, width=20),
            f"{row['files']:,}",
            amount(row["bytes"]),
            f"{amount(row['rate'])}/s" if row["rate"] else "",
            Text(visible(row["reason"] or progress_note(row))),
        )
    return table


@contextmanager
def _log() -> Iterator[Show]:
    seen: dict[str, tuple[str, int]] = {}

    def show(rows: Rows) -> None:
        for row in rows:
            share = _share(row)
            now = (row["state"], (share or 0) // _STEP)
            if seen.get(row["id"]) != now:
                seen[row["id"]] = now
                click.echo(_line(row, share))
        sys.stdout.flush()

    yield show


def _line(row: dict[str, Any], share: int | None) -> str:
    at = datetime.now(UTC).strftime("%H:%M:%S")
    far = f"{share} %" if share is not None else ""
    parts = (at, row["id"], row["state"], far, f"{row['files']:,} files", amount(row["bytes"]), row["reason"] or "")
    return "  ".join(visible(part) for part in parts if part)


def _share(row: dict[str, Any]) -> int | None:
    """Per cent, where that is known."""
    if row["state"] == SplitState.DONE:
        return 100
    progress = row["progress"]
    if progress is None or not progress["all_bytes"]:
        return None
    return int(min(100, 100 * progress["bytes"] // progress["all_bytes"]))
