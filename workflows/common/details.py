"""Markdown for what the Web UI shows of a workflow under Current Details."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "\u00a0\u00a0"  # the Web UI leaves no gap between columns


def table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """A Markdown table of two columns."""
    lines = [f"| {_cell(name)}{_GAP} | {_cell(value)} |" for name, value in (head, *rows)]
    return "\n".join((lines[0], "| --- | --- |", *lines[1:])) + "\n"


def verbatim(text: str) -> str:
    """Text that Markdown leaves alone: it would turn the two dashes of `--split` into one."""
    return "`" + text.replace("`", "'") + "`"


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
