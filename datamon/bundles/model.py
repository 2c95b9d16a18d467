"""What a repo, a bundle and a label are: the descriptors in the store, field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from datamon.core.contributors import Contributor
from datamon.core.ids import BundleId, DiamondId, LabelName, RepoName, SplitId
from datamon.lists.reference import ListRef
from datamon.merge.modes import ConflictMode, Order
from datamon.stores.json_lines import ONE_LINE_EACH


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    """Who deleted something, when, and why."""

    contributor: Contributor
    at: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.contributor} deleted it at {self.at[:19]}Z" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Repo:
    """A named collection of bundles."""

    name: RepoName
    description: str
    contributor: Contributor
    created: str
    deleted: Deleted | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class TakenSplit:
    """A split that went into a bundle: which generation of it, and where it stood in line."""

    id: SplitId
    generation: int
    position: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A split that did not go into a bundle, in which state it was, and why."""

    id: SplitId
    state: str
    reason: str


class DiamondOrigin(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="diamond"):
    """A bundle that a diamond made."""

    kind: ClassVar[str] = "diamond"
    diamond: DiamondId
    mode: ConflictMode
    order: Order
    splits: list[TakenSplit]
    left_out: list[LeftOut]


Origin = DiamondOrigin
"""How a bundle came to be. `kind` tells which: every other way of making bundles adds a class to this union."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A far ancestor, so that ancestry is answered in a few reads. See `history`."""

    bundle: BundleId
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One immutable version of a repo's files. It exists from the moment its descriptor does.

    Nothing in it depends on the name of its repo, so it can be cloned into another one.
    """

    id: BundleId
    message: str
    created: str
    contributors: list[Contributor]
    origin: Origin
    files: int
    bytes: int
    conflicts: int
    checkpoints: int
    stored: int = 0  # bytes that its uploads added to the store
    parents: list[BundleId] = field(default_factory=list)
    generation: int = 1  # greater than that of every parent
    jump: Jump | None = None
    metadata: dict[str, str] = field(default_factory=dict)  # the user's own
    deleted: Deleted | None = None
    lists: list[ListRef] = field(default_factory=list, metadata=ONE_LINE_EACH)
    version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One value of a movable name for bundles. The id tells it from every other value the name ever had."""

    name: LabelName
    repo: RepoName
    bundle: BundleId
    contributor: Contributor
    set: str
    id: str
    version: int = 1
