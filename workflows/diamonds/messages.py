"""The messages of diamonds and splits: small dataclasses of ids, counts and keys.

A field that is added later needs a default; then old histories and old clients still fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from datamon.bundles.model import LeftOut
from datamon.core.contributors import Contributor
from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.diamonds.model import DiamondState, SplitState
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.skipped import Skipped
from datamon.sources.source import Source
from datamon.workflows.common.options import Options
from datamon.workflows.common.refusals import Refusal

NOBODY = Contributor("")
UNNAMED = SplitId("")
NOTHING = Source()


@dataclass(frozen=True)
class AddSplit:
    """A split to upload. `request` is new with every call of a user, so that a repeated signal counts once.

    An add by hand needs only a `path` and the `host` it is on, or an s3:// URL alone: the diamond fills in the rest.
    """

    split: SplitId = UNNAMED
    request: str = ""
    source: Source = NOTHING
    queue: str = ""
    host: str = ""
    contributor: Contributor = NOBODY
    tag: str = ""
    must_exist: bool = False  # the caller gave an id it had got before


_SOURCE_FIELDS = frozenset(one.name for one in fields(Source)) - {"real"}


def as_typed(message: Any) -> Any:
    """An add as somebody may type it, with the fields of the source moved into `source`."""
    if not isinstance(message, dict) or "source" in message:
        return message
    source = {name: value for name, value in message.items() if name in _SOURCE_FIELDS}
    return {name: value for name, value in message.items() if name not in _SOURCE_FIELDS} | {"source": source}


@dataclass(frozen=True)
class CommitRequest:
    """A request to commit. By hand, a `message` is enough.

    The same `request` asks for the same bundle. A commit that failed is tried again, unless `again` says that the
    request is repeated only because its answer did not arrive.
    """

    request: str = ""
    message: str = ""
    mode: ConflictMode = ConflictMode.KEEP
    order: Order = Order.UPLOADED
    wait: bool = False
    splits: int | None = None  # how many must be done
    timeout_seconds: float = 0  # of waiting; 0 is for ever
    label: str = ""
    contributor: Contributor | None = None  # who sets the label; by default who opened the diamond
    metadata: dict[str, str] = field(default_factory=dict)  # the user's own, kept in the bundle
    again: bool = False


@dataclass(frozen=True)
class CancelRequest:
    """A request to cancel. The same `request` again asks for the same answer."""

    request: str = ""
    reason: str = "canceled by the user"
    again: bool = False


@dataclass(frozen=True)
class UploadRequest:
    """One generation of a split to upload: the input of SplitWorkflow."""

    repo: RepoName
    diamond: DiamondId
    add: AddSplit
    generation: int
    created: str
    options: Options
    position: int = 0
    epoch: str = ""
    added: str = ""


@dataclass(frozen=True)
class SplitReport:
    """How one generation of a split ended: the result of SplitWorkflow, and what it reports to its diamond."""

    split: SplitId
    generation: int
    state: SplitState
    files: int = 0
    bytes: int = 0
    stored: int = 0
    skipped: int = 0
    reserved: list[str] = field(default_factory=list)
    reason: str = ""
    failure: Refusal | None = None
    epoch: str = ""
    skipped_sample: list[Skipped] = field(default_factory=list)  # the first things that were left out, and why
    links_followed: int = 0


@dataclass(frozen=True)
class CommitAnswer:
    """The result of a commit."""

    request: str
    bundle: BundleId
    files: int
    bytes: int
    conflicts: int
    left_out: list[LeftOut]
    label: str = ""
    unlabeled: str = ""  # why the label could not be set; the bundle exists all the same


@dataclass(frozen=True)
class CommitOutcome:
    """What became of a request to commit: an answer, a refusal, or neither yet. `known`: whether it arrived at all."""

    known: bool
    answer: CommitAnswer | None = None
    refused: Refusal | None = None


@dataclass(frozen=True)
class FailedSplit:
    """A split that failed, and why."""

    split: SplitId
    tag: str
    reason: str

    def __str__(self) -> str:
        return f"{self.tag} ({self.split}): {self.reason}" if self.tag else f"{self.split}: {self.reason}"


@dataclass(frozen=True)
class DiamondStatus:
    """A diamond in numbers."""

    repo: RepoName
    diamond: DiamondId
    state: DiamondState
    created: str
    splits: dict[str, int]
    waiting: int
    files: int
    bytes: int
    committing: bool  # a commit is accepted, and may be waiting for splits
    reason: str
    bundle: BundleId | None
    failures: list[FailedSplit] = field(default_factory=list)  # those that failed last


@dataclass(frozen=True)
class SplitStatus:
    """A split as its diamond sees it. `refused` is about the newest add that was refused under this id."""

    split: SplitId
    known: bool
    request: str = ""
    state: SplitState | None = None
    generation: int = 0
    started: bool = False
    files: int = 0
    bytes: int = 0
    reason: str = ""
    tag: str = ""
    refused: Refusal | None = None
    position: int = 0
    created: str = ""
    waiting: AddSplit | None = None  # what is to be uploaded, while it waits for a place


@dataclass(frozen=True)
class DiamondResult:
    """How a diamond ended."""

    state: DiamondState
    answer: CommitAnswer | None = None
