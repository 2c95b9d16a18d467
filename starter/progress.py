"""How far something is: a bar on a terminal, a line now and then where stderr is none, nothing if it is to be quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from datamon.core.instants import epoch_seconds
from datamon.starter.advice import sentence
from datamon.starter.output import amount, say, uses_colours, verbosity

if TYPE_CHECKING:
    from datamon.activities.spark import Progress
    from datamon.starter.attempts import Attempt

LINE_SECONDS = 10.0  # between two lines in a log


class Meter(Protocol):
    """Shows how far something is."""

    @property
    def pace(self) -> float:
        """How many seconds there may be until the next look."""
        ...

    def show(self, files: int, all_files: int, size: int, all_size: int) -> None:
        """So much of all is done."""
        ...

    def note(self, text: str) -> None:
        """Say what cannot be said in numbers yet."""
        ...

    def warn(self, text: str) -> None:
        """Say what must not be missed, on a line that stays."""
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

    def warn(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Lines:
    """For logs: few lines, and only where it takes long. But what goes wrong in the beginning is seen soon."""

    def __init__(self, what: str) -> None:
        self._what, self._last = what, time.monotonic()
        self._pace = 0.5

    @property
    def pace(self) -> float:
        self._pace = min(2 * self._pace, LINE_SECONDS)
        return self._pace

    def show(self, files: int, all_files: int, size: int, all_size: int) -> None:
        share = f"{min(100, 100 * size // all_size)} %, " if all_size else ""
        of = f" of {all_files:,}" if all_files else ""
        self.note(f"{share}{files:,}{of} files, {amount(size)}")

    def note(self, text: str) -> None:
        if time.monotonic() - self._last >= LINE_SECONDS - 1:
            self._last = time.monotonic()
            say(f"{self._what}: {text}")

    def warn(self, text: str) -> None:
        say(text)


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


class AttemptMeter:
    """Shows how far an attempt is, and why attempts before it failed: each reason once on a line of its own."""

    def __init__(self, seen: Meter) -> None:
        self._seen = seen
        self._told: set[tuple[str, str]] = set()

    def show(self, attempt: Attempt | None) -> None:
        """What the server knows of an attempt."""
        if attempt is None:
            return
        reason = sentence(attempt.failure) if attempt.failure is not None else ""
        if reason and (attempt.activity, reason) not in self._told:
            self._told.add((attempt.activity, reason))
            self._seen.warn(f"{attempt.activity}: attempt {attempt.number - 1} failed: {reason}")
        if attempt.next:
            self._seen.note(f"attempt {attempt.number} {when(attempt.next)}")
        elif attempt.progress is not None:
            show_progress(self._seen, attempt.progress)


def describe_retry(attempt: Attempt) -> str:
    """Why something is tried again, and when; empty, where it is the first attempt."""
    if attempt.failure is None:
        return ""
    after = f"attempt {attempt.number - 1} failed: {attempt.failure}"
    return f"{after}; the next {when(attempt.next)}" if attempt.next else f"{after}; the next is under way"


def when(instant: str) -> str:
    """How far away a moment is."""
    seconds = round(epoch_seconds(instant) - time.time())
    return f"begins in {seconds} s" if seconds > 0 else "is about to begin"


def show_progress(seen: Meter, progress: Progress) -> None:
    """What a heartbeat carried."""
    if progress.all_parts and progress.all_bytes:
        seen.show(progress.files, progress.all_files, progress.bytes, progress.all_bytes)
    elif progress.all_parts:
        seen.note(f"{progress.phase} {progress.parts}/{progress.all_parts}, {progress.files:,} files")
    else:
        seen.note(progress.phase)
