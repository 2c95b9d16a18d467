"""What the command prints: results on stdout as a table or JSON, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("table", "json")

format_option = click.option(
    "--format", type=click.Choice(FORMATS), default="table", show_default=True, help="How to print the result."
)


def say(text: str) -> None:
    """A remark, on stderr."""
    click.echo(text, err=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_listing(
    items: Iterable[Any], format: str, columns: Sequence[str], row: Callable[[Any], Sequence[object]]
) -> None:
    """Many things: an array in JSON, a line each in a table."""
    if format == "json":
        print_json(list(items))
    else:
        _print_table(columns, (row(item) for item in items))


def print_one(item: Any, format: str) -> None:
    """One thing: an object in JSON, else as the YAML that lies in the store."""
    from datamon.descriptors import to_yaml

    if format == "json":
        print_json(item)
    else:
        click.echo(to_yaml(item), nl=False)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in ("FILES", "BYTES", "SIZE", "CONFLICTS") else "left")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    _console().print(table)


def _console() -> Console:
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 10_000  # a pipe has no edge to wrap at
    return Console(width=wide, markup=False, highlight=False, emoji=False)


def seconds(text: str | None) -> str:
    """A time of a descriptor, short enough for a table."""
    return text[:19].replace("T", " ") if text else ""


def amount(size: int) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{size} B"
