"""Progress on a terminal; nothing at all where stderr is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from activities.spark import Progress
    from datamon.model import Bundle


@contextmanager
def upload_bar() -> Iterator[Callable[[Progress | None], None] | None]:
    """A bar for an upload, moved by calling what it gives with the newest progress; None where nobody looks."""
    with _bar() as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("upload", total=None, files="waiting")

        def show(progress: Progress | None) -> None:
            if progress is not None and progress.all_parts:
                files = f"{progress.files:,}/{progress.all_files:,} files"
                bar.update(task, completed=progress.bytes, total=max(progress.all_bytes, 1), files=files)
            elif progress is not None:
                bar.update(task, files=progress.phase)

        yield show


@contextmanager
def download_bar(bundle: Bundle) -> Iterator[Callable[[int, int], None]]:
    """A bar for a download, moved by calling what it gives with the (files, bytes) that have come."""
    with _bar() as bar:
        if bar is None:
            yield lambda _files, _bytes: None
            return
        task = bar.add_task("download", total=max(bundle.bytes, 1), files="")
        done = 0

        def show(files: int, size: int) -> None:
            nonlocal done
            done += files
            bar.update(task, advance=size, files=f"{done:,}/{bundle.files:,} files")

        yield show


@contextmanager
def _bar() -> Iterator[Bar | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=14),
        TextColumn("{task.fields[files]}"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar
