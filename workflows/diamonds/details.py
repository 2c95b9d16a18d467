"""What the Web UI shows of a diamond under Current Details: Markdown made from its record."""

from __future__ import annotations

from collections.abc import Iterable

from datamon.core.ids import SplitId
from datamon.diamonds.model import SplitState
from datamon.workflows.common.details import table, verbatim
from datamon.workflows.common.retries import FailedAttempt, describe_failed
from datamon.workflows.diamonds.record import DiamondRecord
from datamon.workflows.diamonds.split_rows import SplitRow


def describe(record: DiamondRecord, failed_attempts: Iterable[FailedAttempt] = ()) -> str:
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
        rows.append(("last failure", verbatim(record.reason)))
    rows += describe_failed(failed_attempts)
    rows += _refusals(record)
    return table(("diamond", f"{record.repo} / {record.diamond}"), rows) + _failures(record)


def _refusals(record: DiamondRecord) -> list[tuple[str, str]]:
    """The newest refusal of each kind: whoever sent a signal, for example from the Web UI, got no answer."""
    rows = []
    for kind, refused in (("add", record.refused), ("commit", record.failed_commits)):
        newest = next(reversed(refused.values()), None)
        if newest is not None and str(newest.error()) != record.reason:
            rows.append((f"refused {kind}", verbatim(str(newest.error()))))
    if record.rejected_message is not None:
        rows.append(("refused message", verbatim(str(record.rejected_message.error()))))
    return rows


def _slowest(split: SplitId, row: SplitRow) -> str:
    time = f"running since {row.since[11:19]} UTC" if row.open else f"took {row.took:,.1f} s"
    return f"{row.tag or split}, {time}"


def _failures(record: DiamondRecord) -> str:
    rows = [(one.tag or one.split, verbatim(one.reason)) for one in record.failures()]
    return "\n" + table(("failed split", "why"), rows) if rows else ""
