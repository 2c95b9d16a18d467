"""What the command prints: results on stdout as a table, JSON or YAML, everything else on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import msgspec

Command = TypeVar("Command", bound=Callable[..., Any])

_NUMBERS = frozenset({"FILES", "BYTES", "STORED", "SIZE", "CONFLICTS"})
_FORMATS = ("table", "json", "yaml")


def format_option(command: Command) -> Command:
    """`--format`, for listings."""
    return _format("table")(command)


def one_format_option(command: Command) -> Command:
    """`--format`, for one thing; its table is the YAML that people read."""
    return _format("yaml")(command)


def _format(default: str) -> Callable[[Command], Command]:
    about = "How to print the result."
    return click.option("--format", type=click.Choice(_FORMATS), default=default, show_default=True, help=about)


def say(text: str) -> None:
    """A remark, on stderr."""
    click.echo(text, err=True)


def print_listing(
    items: Iterable[Any], format: str, columns: Sequence[str], row: Callable[[Any], Sequence[object]]
) -> None:
    """Many things: an array in JSON or YAML, a line each in a table."""
    if format == "table":
        _print_table(columns, (row(item) for item in items))
    else:
        print_one(list(items), format)


def print_one(item: Any, format: str) -> None:
    """One thing: an object in JSON, else YAML as it lies in the store."""
    from datamon.descriptors import to_yaml

    if format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(item), indent=2))
    else:
        click.echo(to_yaml(item), nl=False)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they need to be: an id that is cut off to fit a terminal is of no use."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style=None)
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", no_wrap=True)
    for row in rows:
        table.add_row(*("" if value is None else visible(str(value)) for value in row))
    console = Console(width=100_000, markup=False, highlight=False, emoji=False, color_system=None)
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def visible(text: str) -> str:
    """Text that stays on its line and cannot command the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def seconds(text: str | None) -> str:
    """A time of a descriptor, short enough for a table."""
    return text[:19].replace("T", " ") if text else ""


def amount(size: int) -> str:
    """A number of bytes for people."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"
