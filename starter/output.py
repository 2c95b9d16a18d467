"""What the command prints: results on stdout as a table, JSON or YAML, everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import click
import msgspec

from datamon.core.errors import DatamonError

Item = TypeVar("Item")
Command = TypeVar("Command", bound=Callable[..., Any])

_NUMBERS = frozenset({"FILES", "BYTES", "STORED", "RATIO", "SIZE", "CONFLICTS"})
PAGE = 1000  # lines printed at a time: one by one takes four times as long
_FORMATS = ("table", "json", "yaml")
_COLOURS = {"done": "green", "running": "cyan", "committing": "cyan", "failed": "red", "canceled": "yellow"}


@dataclass
class Verbosity:
    """How much this command says."""

    quiet: bool = False
    debug: bool = False


verbosity = Verbosity()


def uses_colours(stream: Any) -> bool:
    """Whether what is printed there may be coloured: on a terminal, unless its user does not want that."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return bool(not plain and stream is not None and stream.isatty())


def format_option(command: Command) -> Command:
    """`--format`, for listings."""
    return _format("table")(command)


def one_format_option(command: Command) -> Command:
    """`--format`, for one thing; its table is the YAML that people read."""
    return _format("yaml")(command)


def _format(default: str) -> Callable[[Command], Command]:
    about = "How to print the result."
    return click.option("--format", type=click.Choice(_FORMATS), default=default, show_default=True, help=about)


def result_format_option(command: Command) -> Command:
    """`--format`, for what a command has made; its table is the id alone, for scripts."""
    return _format("table")(command)


def say(text: str) -> None:
    """A remark, on stderr."""
    if not verbosity.quiet:
        click.echo(text, err=True)


def print_result(name: str, made: Any, format: str) -> None:
    """What was made: its id, or all that is known of it."""
    if format == "table":
        click.echo(name)
    else:
        print_one(made, format)
    sys.stdout.flush()  # a restarted container needs an id even if we are killed now


def print_listing(
    items: Iterable[Any], format: str, columns: Sequence[str], row: Callable[[Any], Sequence[object]]
) -> None:
    """Many things: an array in JSON or YAML, a line each in a table. They are printed as they come."""
    try:
        if format == "table":
            _print_table(columns, (row(item) for item in items))
            return
        dumped = _json_items if format == "json" else _yaml_items
        for page in _pages(dumped(items)):
            click.echo("".join(page), nl=False)
    except BrokenPipeError:  # the reader of our output has seen enough
        raise click.exceptions.Exit(0) from None


def _json_items(items: Iterable[Any]) -> Iterator[str]:
    before = "[\n"
    for item in items:
        text = msgspec.json.format(msgspec.json.encode(item), indent=2).decode()
        yield before + "  " + text.replace("\n", "\n  ")
        before = ",\n"
    yield "\n]\n" if before != "[\n" else "[]\n"


def _yaml_items(items: Iterable[Any]) -> Iterator[str]:
    from datamon.stores.descriptors import to_yaml

    nothing = True
    for item in items:
        nothing = False
        yield to_yaml([item])
    if nothing:
        yield "[]\n"


def print_one(item: Any, format: str) -> None:
    """One thing: an object in JSON, else YAML as it lies in the store."""
    from datamon.stores.descriptors import to_yaml

    if format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(item), indent=2))
    else:
        click.echo(to_yaml(item), nl=False)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they need to be: an id that is cut off to fit a terminal is of no use.

    A long table is printed a page at a time, and a column may grow from page to page.
    """
    widths = [len(column) for column in columns]
    lines = chain([columns], (["" if value is None else visible(str(value)) for value in row] for row in rows))
    for page in _pages(lines):
        widths = [max(width, *(_width(row[at]) for row in page)) for at, width in enumerate(widths)]
        aligned = ["  ".join(map(_aligned, columns, row, widths)).rstrip() for row in page]
        click.echo("\n".join(aligned), color=uses_colours(sys.stdout))


def _pages(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Some at a time. What came before something failed is given all the same."""
    page: list[Item] = []
    try:
        for item in items:
            page.append(item)
            if len(page) == PAGE:
                yield page
                page = []
    except DatamonError:
        yield page
        raise
    if page:
        yield page


def _aligned(column: str, cell: str, width: int) -> str:
    gap = " " * (width - _width(cell))
    if column == "STATE" and cell in _COLOURS:
        cell = click.style(cell, fg=_COLOURS[cell])
    return gap + cell if column in _NUMBERS else cell + gap


def _width(text: str) -> int:
    """How many cells of a terminal it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def visible(text: str) -> str:
    """Text that stays on its line and cannot command the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def seconds(text: str | None) -> str:
    """A time of a descriptor, short enough for a table."""
    return text[:19].replace("T", " ") if text else ""


def ratio(size: int, stored: int) -> str:
    """How many times smaller something is in the store; empty where that cannot be said."""
    if not (size and stored):
        return ""
    times = size / stored
    return f"{times:.1f}x" if times < 100 else f"{times:,.0f}x"


def amount(size: int) -> str:
    """A number of bytes for people."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"
