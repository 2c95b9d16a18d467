"""What housekeeping finds out about a diamond."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from datamon.core.ids import DiamondId, RepoName


class Verdict(StrEnum):
    """What is to be done with a diamond."""

    REMOVE = "remove"
    KEEP = "keep"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Limits:
    """Instants: what ended before `ended` may be removed; what is open and silent since `silent` looks abandoned."""

    ended: str
    silent: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A diamond that housekeeping reports."""

    repo: RepoName
    diamond: DiamondId
    state: str
    since: str
    verdict: Verdict
    note: str
