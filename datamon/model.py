"""The nouns: what a repo, bundle, label, diamond and split are, and which states may follow which.

    diamond   initialized -> committing -> done          committing -> initialized  (a commit that failed)
              initialized -> canceling -> canceled
    split     running -> done | failed                   running, failed -> running (added again)

These dataclasses are the descriptors in the store, field by field. Times are RFC 3339 text in UTC with
nanoseconds, because a datetime ends at microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

import msgspec

from datamon.errors import WrongState
from datamon.ids import BundleId, DiamondId, LabelName, RepoName, SplitId

VERSION = 1


class _State(StrEnum):
    def advance(self, to: Self, name: str = "") -> Self:
        """The next state, or WrongState where the table above has no such arrow."""
        if to not in _ARROWS[self]:
            kind = type(self).__name__.removesuffix("State").lower()
            raise WrongState(kind, name, self, f"it cannot become {to}")
        return to

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return not _ARROWS[self]


class DiamondState(_State):
    """Where a diamond stands."""

    INITIALIZED = "initialized"
    COMMITTING = "committing"
    DONE = "done"
    CANCELING = "canceling"
    CANCELED = "canceled"


class SplitState(_State):
    """Where a split stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


_ARROWS: dict[_State, frozenset[_State]] = {
    DiamondState.INITIALIZED: frozenset({DiamondState.COMMITTING, DiamondState.CANCELING}),
    DiamondState.COMMITTING: frozenset({DiamondState.DONE, DiamondState.INITIALIZED}),
    DiamondState.DONE: frozenset(),
    DiamondState.CANCELING: frozenset({DiamondState.CANCELED}),
    DiamondState.CANCELED: frozenset(),
    SplitState.RUNNING: frozenset({SplitState.DONE, SplitState.FAILED, SplitState.RUNNING}),
    SplitState.FAILED: frozenset({SplitState.RUNNING}),
    SplitState.DONE: frozenset(),
}


class ConflictMode(StrEnum):
    """What a commit does with versions that lost and differ."""

    KEEP = "with-conflicts"
    CHECKPOINTS = "with-checkpoints"
    IGNORE = "ignore-conflicts"
    FORBID = "no-conflicts"

    @property
    def folder(self) -> str | None:
        """The root folder where losing versions are filed."""
        return {ConflictMode.KEEP: ".conflicts", ConflictMode.CHECKPOINTS: ".checkpoints"}.get(self)


class Order(StrEnum):
    """What makes a version the later one."""

    UPLOADED = "uploaded"
    ADDED = "added"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a split or bundle, and one line of a file list.

    Its bytes lie at `at` (pack, offset), or in the chunks that `root` lists, or nowhere when it is empty. It says all
    there is to know, so it can be moved from list to list as it is.
    """

    name: str
    hash: str  # BLAKE3 of the content, hex
    size: int
    mode: int
    mtime: int  # of the source file, ns since the epoch
    timestamp: int  # when its upload ended, ns since the epoch
    at: tuple[str, int] | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Contributor:
    """Who made something."""

    name: str
    email: str = ""

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.email else self.name


@dataclass(frozen=True, slots=True)
class ListInfo:
    """What a descriptor keeps about one of its file lists, so that most questions need not open it."""

    index: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z-]{1,100}\Z")]  # a part of its key
    count: int
    bytes: int
    first: str
    last: str
    digest: str  # of the head, which has those of the rest; of a list without a head, of all of it
    head: int = 0  # its length in bytes
    latest: int = 0  # the greatest timestamp in it


@dataclass(frozen=True, kw_only=True, slots=True)
class Repo:
    """A named collection of bundles."""

    name: RepoName
    description: str
    contributor: Contributor
    created: str
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class TakenSplit:
    """A split that went into a bundle, as the merge sees it: which generation, and where it stood in line."""

    id: SplitId
    generation: int
    position: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A split that did not go into a bundle, and why."""

    id: SplitId
    state: SplitState
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The diamond a bundle came from."""

    id: DiamondId
    mode: ConflictMode
    order: Order
    splits: list[TakenSplit]
    left_out: list[LeftOut]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One immutable version of a repo's files. It exists from the moment its descriptor does."""

    id: BundleId
    repo: RepoName
    message: str
    created: str
    contributors: list[Contributor]
    parents: list[BundleId]
    diamond: Origin
    files: int
    bytes: int
    conflicts: int
    checkpoints: int
    lists: list[ListInfo]
    version: int = VERSION


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One value of a movable name for bundles. The id tells it from every other value the name ever had."""

    name: LabelName
    repo: RepoName
    bundle: BundleId
    contributor: Contributor
    set: str
    id: str
    version: int = VERSION


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenId:
    """The record that a diamond's id was given out. It stays when all else of the diamond is cleaned up."""

    id: DiamondId
    repo: RepoName
    contributor: Contributor
    created: str
    version: int = VERSION


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
    label: str = ""  # what that commit is to label it with
    bundle: BundleId | None = None
    splits: dict[SplitState, int] = field(default_factory=dict)
    reason: str = ""  # why the last commit failed
    server: str = ""  # which Temporal namespace its workflow is in
    epoch: str = ""  # who took it up last, after it was lost; splits of before count no more
    version: int = VERSION

    @property
    def age(self) -> tuple[int, int]:
        """Which of two descriptors of one diamond is the newer one."""
        return 0, self.revision


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
    created: str
    started: str | None  # None if it never got its turn
    position: int = 0  # among the adds of its diamond
    ended: str | None = None
    files: int = 0
    bytes: int = 0
    stored: int = 0  # bytes that were new to the store
    skipped: int = 0
    attempts: int = 0
    reason: str = ""
    plan: str = ""
    epoch: str = ""  # of its diamond, when it was started
    lists: list[ListInfo] = field(default_factory=list)
    version: int = VERSION

    @property
    def age(self) -> tuple[int, int]:
        """Which of two descriptors of one split is the newer one."""
        return self.generation, self.revision


def instant(ns: int) -> str:
    """Nanoseconds since the epoch as the text that descriptors carry."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None).isoformat()}.{rest:09d}Z"


def clock(instant: str) -> float:
    """Seconds since the epoch of such a text."""
    return datetime.fromisoformat(f"{instant[:26]}+00:00").timestamp()


def seconds_between(earlier: str | None, later: str | None) -> float:
    """How long it was from one such text to another; 0 where one of them is missing."""
    return max(0.0, clock(later) - clock(earlier)) if earlier and later else 0.0
