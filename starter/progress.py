"""How far something is: a bar on a terminal, a line now and then where stderr is none, nothing if it is to be quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from datamon.starter.output import amount, say, uses_colours, verbosity

if TYPE_CHECKING:
    from datamon.activities.spark import Progress

LINE_SECONDS = 10.0  # between two lines in a log


class Meter(Protocol):
    """Shows how far something is; `pace` is how many seconds there may be between two looks."""

    pace: float

    def show(self, files: int, all_files: int, size: int, all_size: int) -> None:
        """So much of all is done."""
        ...

    def note(self, text: str) -> None:
        """Say what cannot be said in numbers yet."""
        ...


class _Bar:
    pace = 0.5

    def __init__(self, bar: Any, what: str) -> None:
        self._bar, self._task = bar, bar.add_task(what, total=None, note="")

    def show(self, files: int, all_files: int, size: int, all_size: int) -> None:
        of = f"/{all_files:,}" if all_files else ""
        self._bar.update(self._task, completed=size, total=max(all_size, 1), note=f"{files:,}{of} files")

    def note(self, text: str) -> None:
        self._bar.update(self._task, note=text)


class _Lines:
    """For logs: few lines, and only where it takes long."""

    pace = LINE_SECONDS

    def __init__(self, what: str) -> None:
        self._what, self._last = what, time.monotonic()

    def show(self, files: int, all_files: int, size: int, all_size: int) -> None:
        share = f"{min(100, 100 * size // all_size)} %, " if all_size else ""
        of = f" of {all_files:,}" if all_files else ""
        self.note(f"{share}{files:,}{of} files, {amount(size)}")

    def note(self, text: str) -> None:
        if time.monotonic() - self._last >= LINE_SECONDS - 1:
            self._last = time.monotonic()
            say(f"{self._what}: {text}")


@contextmanager
def meter(what: str) -> Iterator[Meter]:
    """A meter for something that may take long."""
    if verbosity.quiet or not sys.stderr.isatty():
        yield _Lines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=14),
        TextColumn("{task.fields[note]}"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True, no_color=not uses_colours(sys.stderr))
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar, what)


def show_progress(seen: Meter, progress: Progress | None) -> None:
    """What a heartbeat carried."""
    if progress is None:
        return
    if progress.all_parts and progress.all_bytes:
        seen.show(progress.files, progress.all_files, progress.bytes, progress.all_bytes)
    elif progress.all_parts:
        seen.note(f"{progress.phase} {progress.parts}/{progress.all_parts}, {progress.files:,} files")
    else:
        seen.note(progress.phase)
