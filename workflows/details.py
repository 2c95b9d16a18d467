"""What the Web UI shows of a diamond under Current Details: Markdown made from its record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from datamon.ids import SplitId
from datamon.model import SplitState
from workflows.record import DiamondRecord, SplitRow

FAILURES = 5
_GAP = "\u00a0\u00a0"  # the Web UI leaves none between columns


def describe(record: DiamondRecord) -> str:
    """The diamond on one screen: its state, its splits by state, its size, and what went wrong last."""
    rows = [
        ("state", f"**{record.state}**"),
        ("splits", ", ".join(f"{record.count(state)} {state}" for state in SplitState)),
        ("files", f"{record.index.files:,}"),
        ("bytes", f"{record.index.bytes:,}"),
    ]
    slowest = record.slowest()
    if slowest is not None:
        rows.append(("slowest split", _slowest(*slowest)))
    if record.index.waiting:
        rows.append(("waiting for a place", str(record.index.waiting)))
    if record.commit is not None and record.answer is None:
        rows.append(("commit", f"{record.commit.message!r}, {record.commit.mode}"))
    if record.answer is not None:
        rows.append(("bundle", f"`{record.answer.bundle}`, {record.answer.conflicts:,} conflicts"))
    if record.reason:
        rows.append(("last failure", _verbatim(record.reason)))
    rows += _refusals(record)
    return table(("diamond", f"{record.repo} / {record.diamond}"), rows) + _failures(record)


def _refusals(record: DiamondRecord) -> list[tuple[str, str]]:
    """The newest of each kind: whoever sent it as a signal, from the Web UI for one, got no answer."""
    rows = []
    for kind, refused in (("add", record.refused), ("commit", record.failed_commits)):
        newest = next(reversed(refused.values()), None)
        if newest is not None and str(newest.error()) != record.reason:
            rows.append((f"refused {kind}", _verbatim(str(newest.error()))))
    if record.misheard is not None:
        rows.append(("refused message", _verbatim(str(record.misheard.error()))))
    return rows


def _slowest(split: SplitId, row: SplitRow) -> str:
    told = f"running since {row.since[11:19]} UTC" if row.open else f"took {row.took:,.1f} s"
    return f"{row.tag or split}, {told}"


def table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """A Markdown table of two columns."""
    lines = [f"| {_cell(name)}{_GAP} | {_cell(value)} |" for name, value in (head, *rows)]
    return "\n".join((lines[0], "| --- | --- |", *lines[1:])) + "\n"


def _failures(record: DiamondRecord) -> str:
    last = list(islice(reversed(record.index.failed.items()), FAILURES))
    rows = [(row.tag or split, _verbatim(row.reason)) for split, row in reversed(last)]
    return "\n" + table(("failed split", "why"), rows) if rows else ""


def _verbatim(text: str) -> str:
    """Text that Markdown leaves alone: it would make one dash of `--split`."""
    return "`" + text.replace("`", "'") + "`"


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
