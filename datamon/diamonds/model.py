"""What a diamond and a split are, and which states may follow which.

    diamond   initialized -> committing -> done          committing -> initialized  (a commit that failed)
              initialized -> canceling -> canceled
    split     running -> done | failed                   running, failed -> running (added again)

These dataclasses are the descriptors in the store, field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Self

from datamon.core.contributors import Contributor
from datamon.core.errors import WrongState
from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.core.states import State
from datamon.lists.reference import ListRef
from datamon.merge.modes import ConflictMode
from datamon.sources.skipped import Skipped
from datamon.stores.json_lines import ONE_LINE_EACH


class DiamondState(State):
    """Where a diamond stands."""

    INITIALIZED = "initialized"
    COMMITTING = "committing"
    DONE = "done"
    CANCELING = "canceling"
    CANCELED = "canceled"

    @classmethod
    @cache
    def _arrows(cls) -> Mapping[Self, frozenset[Self]]:
        return {
            cls.INITIALIZED: frozenset({cls.COMMITTING, cls.CANCELING}),
            cls.COMMITTING: frozenset({cls.DONE, cls.INITIALIZED}),
            cls.DONE: frozenset(),
            cls.CANCELING: frozenset({cls.CANCELED}),
            cls.CANCELED: frozenset(),
        }


class SplitState(State):
    """Where a split stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @classmethod
    @cache
    def _arrows(cls) -> Mapping[Self, frozenset[Self]]:
        return {
            cls.RUNNING: frozenset({cls.DONE, cls.FAILED, cls.RUNNING}),
            cls.FAILED: frozenset({cls.RUNNING}),
            cls.DONE: frozenset(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class IdReservation:
    """The record that a diamond's id is taken. It stays when all else of the diamond is removed."""

    id: DiamondId
    repo: RepoName
    contributor: Contributor
    created: str
    version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Diamond:
    """The making of one bundle by many uploads, as published. A higher revision is newer."""

    id: DiamondId
    repo: RepoName
    state: DiamondState
    contributor: Contributor
    created: str
    updated: str
    revision: int
    tag: str = ""
    mode: ConflictMode | None = None
    ended: str | None = None
    making: BundleId | None = None  # the bundle that the commit under way will make, unless it fails
    label: str = ""  # the label that this commit sets, or has set
    bundle: BundleId | None = None
    metadata: dict[str, str] = field(default_factory=dict)  # the user's own; its bundle has it too
    opening: str = ""  # the request that it was opened by, if its client gave one
    request: str = ""  # the one that it was committed or canceled by
    splits: dict[SplitState, int] = field(default_factory=dict)
    reason: str = ""  # why the last commit failed
    server: str = ""  # which Temporal namespace its workflow is in
    epoch: str = ""  # which recovery took it up last; splits of earlier epochs no longer count
    version: int = 1

    @property
    def age(self) -> tuple[int, int]:
        """What descriptors of one diamond are compared by: the greater is the newer."""
        return 0, self.revision


def ended(diamond: DiamondId, state: DiamondState, bundle: BundleId | None, refused: str) -> WrongState:
    """The error for a change to a diamond that has ended."""
    return WrongState("diamond", diamond, state, f"{refused}; it became bundle {bundle}" if bundle else refused)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One upload into a diamond, as published. A higher (generation, revision) is newer."""

    id: SplitId
    diamond: DiamondId
    repo: RepoName
    state: SplitState
    generation: int
    revision: int
    tag: str
    contributor: Contributor
    host: str
    source: str
    created: str  # when it was added first
    started: str | None  # None if it never got its turn
    added: str = ""  # when it was added for this generation
    position: int = 0  # among the adds of its diamond
    ended: str | None = None
    files: int = 0
    bytes: int = 0
    stored: int = 0  # bytes that were new to the store, of all attempts and generations
    skipped: int = 0
    skipped_sample: list[Skipped] = field(default_factory=list)
    attempts: int = 0
    reason: str = ""
    plan: str = ""
    epoch: str = ""  # of its diamond, when it was started
    request: str = ""  # the one that it was added by
    lists: list[ListRef] = field(default_factory=list, metadata=ONE_LINE_EACH)
    version: int = 1

    @property
    def age(self) -> tuple[int, int]:
        """What descriptors of one split are compared by: the greater is the newer."""
        return self.generation, self.revision
