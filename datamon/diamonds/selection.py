"""Which splits a commit takes, which it leaves out and why, and whether they are enough: decided only here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from datamon.bundles.model import LeftOut, TakenSplit
from datamon.core.errors import NothingToCommit
from datamon.core.ids import DiamondId, SplitId
from datamon.diamonds.model import SplitState

STILL_RUNNING = "it is still running"


class SplitOutcome(Protocol):
    """What the rules need to know of a split."""

    @property
    def state(self) -> SplitState | None:
        """Where it stands."""
        ...

    @property
    def generation(self) -> int:
        """The generation of its newest run."""
        ...

    @property
    def position(self) -> int:
        """Its place among the adds of its diamond."""
        ...

    @property
    def reason(self) -> str:
        """Why it failed."""
        ...


def taken_splits(splits: Iterable[tuple[SplitId, SplitOutcome]]) -> list[TakenSplit]:
    """The splits that a commit takes: those that are done."""
    return [TakenSplit(name, one.generation, one.position) for name, one in splits if one.state is SplitState.DONE]


def left_out_splits(splits: Iterable[tuple[SplitId, SplitOutcome]]) -> list[LeftOut]:
    """The splits that a commit does not take, and why."""
    return [
        LeftOut(name, one.state, one.reason or (STILL_RUNNING if one.state is SplitState.RUNNING else ""))
        for name, one in splits
        if one.state is not None and one.state is not SplitState.DONE
    ]


def check_enough(
    diamond: DiamondId, counts: Mapping[SplitState, int], needed: int | None, failures: Sequence[str] = ()
) -> None:
    """Raise NothingToCommit if fewer splits are done than needed: one, or as many as the caller asked for."""
    if counts.get(SplitState.DONE, 0) < max(1, needed or 1):
        raise too_few(diamond, counts, needed, failures)


def too_few(
    diamond: DiamondId,
    counts: Mapping[SplitState, int],
    needed: int | None,
    failures: Sequence[str] = (),
    waited: float = 0,
) -> NothingToCommit:
    """The refusal of a commit with fewer done splits than it needs, or with some that still run."""
    done, running, failed = (counts.get(state, 0) for state in (SplitState.DONE, SplitState.RUNNING, SplitState.FAILED))
    return NothingToCommit(diamond, done, running, failed, max(1, needed or 1), list(failures), waited)
