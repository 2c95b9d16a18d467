"""Moments in time as text: RFC 3339 in UTC with nanoseconds, because a datetime has only microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(ns: int) -> str:
    """Nanoseconds since the epoch as text."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None).isoformat()}.{rest:09d}Z"


def epoch_seconds(instant: str) -> float:
    """The seconds since the epoch that an instant stands for."""
    return datetime.fromisoformat(f"{instant[:26]}+00:00").timestamp()


def seconds_between(earlier: str | None, later: str | None) -> float:
    """The seconds from one instant to another; 0 if one of them is missing."""
    return max(0.0, epoch_seconds(later) - epoch_seconds(earlier)) if earlier and later else 0.0
