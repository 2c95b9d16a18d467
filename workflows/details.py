"""What the Web UI shows of a diamond under Current Details: Markdown made from its record."""

from __future__ import annotations

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
    table = "\n".join(f"| {name} | {_cell(value)} |" for name, value in rows)
    return f"| diamond | {record.repo} / {record.diamond} |\n| --- | --- |\n{table}\n{_failures(record)}"


def _failures(record: DiamondRecord) -> str:
    failed = [(split, row) for split, row in record.splits.items() if row.state is SplitState.FAILED]
    lines = [f"| {_cell(row.tag or split)} | {_cell(row.reason)} |" for split, row in failed[-FAILURES:]]
    return "\n| failed split | why |\n| --- | --- |\n" + "\n".join(lines) if lines else ""


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
