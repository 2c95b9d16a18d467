"""Everything that is said to workflows and by them: small dataclasses of ids, counts and keys.

A field that is added later needs a default; then old histories and old clients still fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy

from datamon.errors import DatamonError, ErrorCode, rebuild
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.model import ConflictMode, Contributor, DiamondState, LeftOut, Order, SplitState


@dataclass(frozen=True)
class Options:
    """How patient a diamond is. An operator can change these without a new version, and a test can shorten them."""

    window: int = 50  # splits started at once; 200 at once cost the parent a sticky timeout of 10 s
    heartbeat_seconds: float = 20
    retry_first_seconds: float = 1
    retry_longest_seconds: float = 60
    metadata_seconds: float = 60
    probe_seconds: float = 600  # between looks at splits that an earlier run of the diamond started
    stop_seconds: float = 60  # before a split that was told to stop is told again
    quiet_seconds: float = 10  # that a diamond waits for its splits to end, before it continues as new
    spark_days: float = 30

    @property
    def retry(self) -> RetryPolicy:
        """For what can pass; errors that cannot pass say so themselves. There is no limit on attempts."""
        return RetryPolicy(
            initial_interval=timedelta(seconds=self.retry_first_seconds),
            maximum_interval=timedelta(seconds=self.retry_longest_seconds),
        )


NOBODY = Contributor("")
UNNAMED = SplitId("")


@dataclass(frozen=True)
class AddSplit:
    """A split to upload. `request` is new with every call of a user, so that a repeated signal counts once.

    By hand it takes a `path` and the `host` it is on, or an s3:// URL alone: the diamond fills in the rest.
    """

    split: SplitId = UNNAMED
    request: str = ""
    path: str = ""
    queue: str = ""
    host: str = ""
    contributor: Contributor = NOBODY
    tag: str = ""
    skip_on_error: bool = False
    must_exist: bool = False  # the caller gave an id it had got before
    files: str = ""  # the key of a list of names
    name_filter: str = ""


@dataclass(frozen=True)
class CommitRequest:
    """A wish to commit. The same `request` again asks for the same answer; by hand, a `message` is enough."""

    request: str = ""
    message: str = ""
    mode: ConflictMode = ConflictMode.KEEP
    order: Order = Order.UPLOADED
    wait: bool = False
    splits: int | None = None
    label: str = ""
    contributor: Contributor | None = None  # who sets the label; by default who opened the diamond


@dataclass(frozen=True)
class CancelRequest:
    """A wish to cancel. The same `request` again asks for the same answer."""

    request: str = ""
    reason: str = "canceled by the user"


@dataclass(frozen=True)
class Refusal:
    """Why something was refused, as plain values that turn back into the error."""

    request: str
    code: str
    args: list[Any]

    @classmethod
    def of(cls, request: str, error: DatamonError) -> Refusal:
        """The refusal that this error is."""
        return cls(request, error.code, list(error.args))

    def error(self) -> DatamonError:
        """The error again."""
        return rebuild(ErrorCode(self.code), self.args)


@dataclass(frozen=True)
class SplitInput:
    """One generation of a split: the input of SplitWorkflow."""

    repo: RepoName
    diamond: DiamondId
    add: AddSplit
    generation: int
    created: str
    options: Options
    position: int = 0
    epoch: str = ""


@dataclass(frozen=True)
class SplitReport:
    """How one generation of a split ended: the result of SplitWorkflow, and what it tells its diamond."""

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


@dataclass(frozen=True)
class CommitAnswer:
    """What a commit came to."""

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
    """What became of a wish to commit: an answer, a refusal, or neither yet. `known`: that it was heard of at all."""

    known: bool
    answer: CommitAnswer | None = None
    refused: Refusal | None = None


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
