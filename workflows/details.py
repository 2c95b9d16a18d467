"""What the Web UI shows of a diamond under Current Details: Markdown made from its record."""

from __future__ import annotations

from collections.abc import Sequence

from datamon.model import SplitState
from workflows.record import DiamondRecord

FAILURES = 5


def describe(record: DiamondRecord) -> str:
    """The diamond on one screen: its state, its splits by state, its size, and what went wrong last."""
    done = [row for row in record.splits.values() if row.state is SplitState.DONE]
    rows = [
        ("state", f"**{record.state}**"),
        ("splits", ", ".join(f"{record.count(state)} {state}" for state in SplitState)),
        ("files", f"{sum(row.files for row in done):,}"),
        ("bytes", f"{sum(row.bytes for row in done):,}"),
    ]
    waiting = sum(row.waiting is not None for row in record.splits.values())
    if waiting:
        rows.append(("waiting for a place", str(waiting)))
    if record.commit is not None and record.answer is None:
        rows.append(("commit", f"{record.commit.message!r}, {record.commit.mode}"))
    if record.answer is not None:
        rows.append(("bundle", f"`{record.answer.bundle}`, {record.answer.conflicts:,} conflicts"))
    if record.reason:
        rows.append(("last failure", record.reason))
    return table(("diamond", f"{record.repo} / {record.diamond}"), rows) + _failures(record)


def table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """A Markdown table of two columns."""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in (head, ("---", "---"), *rows)]
    return "\n".join(lines) + "\n"


def _failures(record: DiamondRecord) -> str:
    failed = [(split, row) for split, row in record.splits.items() if row.state is SplitState.FAILED]
    rows = [(row.tag or split, row.reason) for split, row in failed[-FAILURES:]]
    return "\n" + table(("failed split", "why"), rows) if rows else ""


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
