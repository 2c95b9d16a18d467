"""One family of errors that a person can act on.

Every error has a code, fields, and a sentence that says what happened. What to do next differs between a terminal and
an HTTP client, so it is added where the error is shown: see `Remedy`. The fields are plain values, so an error crosses
pickle (out of a Spark task) and Temporal (out of an activity), and is raised again on the other side as the same class:
`rebuild(error.code, error.args)`.

exit codes: 1 failed, 2 wrong usage, 3 not found, 4 already exists or wrong state,
            5 conflicts forbidden, 6 no server or store reachable
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, ParamSpec, TypeVar

from datamon.core.text import SPELLED_OUT, counted, quoted


class ErrorCode(StrEnum):
    """What an error is called where classes cannot go: in Temporal's history and in JSON."""

    FAILED = "Failed"
    BAD_USAGE = "BadUsage"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    WRONG_STATE = "WrongState"
    NOTHING_TO_COMMIT = "NothingToCommit"
    CONFLICTS_FORBIDDEN = "ConflictsForbidden"
    SOURCE_MISSING = "SourceMissing"
    SOURCE_UNREADABLE = "SourceUnreadable"
    SOURCE_EMPTY = "SourceEmpty"
    SOURCE_CHANGED = "SourceChanged"
    UNFIT_FILE = "UnfitFile"
    SPLIT_FAILED = "SplitFailed"
    DESTINATION_IN_USE = "DestinationInUse"
    UNSAFE_PATH = "UnsafePath"
    CORRUPT_OBJECT = "CorruptObject"
    CORRUPT_FILE = "CorruptFile"
    STALE_WRITE = "StaleWrite"
    OBJECT_CHANGED = "ObjectChanged"
    NO_STORE = "NoStore"
    CLOCK_SKEWED = "ClockSkewed"
    STORE_UNREACHABLE = "StoreUnreachable"
    STORE_FULL = "StoreFull"
    STORE_REFUSED = "StoreRefused"
    SERVER_UNREACHABLE = "ServerUnreachable"
    NO_WORKER = "NoWorker"


class Remedy(StrEnum):
    """What would help. The command says it in flags, an HTTP server in requests; the error only names it."""

    NONE = ""
    CREATE_REPO = "create-repo"
    INITIALIZE_DIAMOND = "initialize-diamond"
    OMIT_DIAMOND_ID = "omit-diamond-id"
    OMIT_OR_CREATE_SPLIT_ID = "omit-or-create-split-id"
    ADD_NEW_SPLIT = "add-new-split"
    DECLARE_SERVER_LOST = "declare-server-lost"
    RECOVER_DIAMOND = "recover-diamond"
    END_DIAMONDS = "end-diamonds"
    MOVE_LABEL = "move-label"
    LIST_LABELS = "list-labels"
    USE_LABEL = "use-label"
    LIST_FILES = "list-files"
    SCHEDULE_HOUSEKEEPING = "schedule-housekeeping"
    STOP_STACK = "stop-stack"
    FORCE_DOWNLOAD = "force-download"
    ALLOW_EMPTY = "allow-empty"
    USE_GLOBS = "use-globs"


@dataclass(eq=False)
class DatamonError(Exception):
    """Base of the family. Subclasses are dataclasses whose fields are plain values."""

    code: ClassVar[ErrorCode] = ErrorCode.FAILED
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False  # whether it is worth trying the same call again later
    needs_a_person: ClassVar[bool] = False  # whether it keeps failing until somebody fixes something

    def __post_init__(self) -> None:
        self.args = tuple(getattr(self, field.name) for field in fields(self))


@dataclass(eq=False)
class Failed(DatamonError):
    """Anything that has no class of its own: the sentence is all there is."""

    sentence: str
    remedy: str = Remedy.NONE

    def __str__(self) -> str:
        return self.sentence


@dataclass(eq=False)
class BadUsage(DatamonError):
    """Something the caller gave makes no sense: an illegal id, flags that exclude each other."""

    code = ErrorCode.BAD_USAGE
    exit_code = 2
    sentence: str
    remedy: str = Remedy.NONE

    def __str__(self) -> str:
        return self.sentence


@dataclass(eq=False)
class NotFound(DatamonError):
    """A repo, diamond, split, bundle, file or object that is not there."""

    code = ErrorCode.NOT_FOUND
    exit_code = 3
    kind: str
    name: str
    remedy: str = Remedy.NONE
    repo: str = ""  # the one that it would be in
    deleted: str = ""  # who deleted it, when and why, if somebody did

    def __str__(self) -> str:
        return f"there is no {self.kind} {self.name!r}" + (f": {self.deleted}" if self.deleted else "")


@dataclass(eq=False)
class AlreadyExists(DatamonError):
    """A name that can be given only once was given before."""

    code = ErrorCode.ALREADY_EXISTS
    exit_code = 4
    kind: str
    name: str
    remedy: str = Remedy.NONE

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} already exists"


@dataclass(eq=False)
class WrongState(DatamonError):
    """A diamond or split is in a state that does not allow what was asked."""

    code = ErrorCode.WRONG_STATE
    exit_code = 4
    kind: str
    name: str
    state: str
    refused: str
    remedy: str = Remedy.NONE

    def __str__(self) -> str:
        return f"{self.kind} {self.name} is {self.state}: {self.refused}"


@dataclass(eq=False)
class NothingToCommit(DatamonError):
    """A commit needs done splits: at least one, or as many as the caller asked for."""

    code = ErrorCode.NOTHING_TO_COMMIT
    exit_code = 4
    diamond: str
    done: int
    running: int
    failed: int
    needed: int = 1
    failures: list[str] = field(default_factory=list)  # the first of them: a split, and why it failed
    waited: float = 0  # seconds

    def __str__(self) -> str:
        if self.waited and self.done >= self.needed:
            missing = f"diamond {self.diamond} still has splits that run"
        elif self.needed == 1 and not self.done:
            missing = f"diamond {self.diamond} has no done split"
        else:
            done = counted(self.done, "done split")
            missing = f"diamond {self.diamond} has {done}, fewer than the {self.needed} asked for"
        after = f"after {self.waited:g} s " if self.waited else ""
        why = f": {'; '.join(self.failures)}" if self.failures else ""
        more = f" and {self.failed - len(self.failures)} more" if 0 < len(self.failures) < self.failed else ""
        return f"{after}{missing} ({self.running} running, {self.failed} failed{why}{more})"


@dataclass(eq=False)
class ConflictsForbidden(DatamonError):
    """A commit that allows no conflicts met versions that differ. `sample` holds the first of them, in name order."""

    code = ErrorCode.CONFLICTS_FORBIDDEN
    exit_code = 5
    diamond: str
    count: int
    sample: list[str]

    def __str__(self) -> str:
        named = ", ".join(self.sample[:SPELLED_OUT]) + (", …" if self.count > SPELLED_OUT else "")
        return f"{counted(self.count, 'version')} would lose in diamond {self.diamond}: {named}"


@dataclass(eq=False)
class SourceMissing(DatamonError):
    """The path to upload is not there."""

    code = ErrorCode.SOURCE_MISSING
    exit_code = 3
    path: str

    def __str__(self) -> str:
        return f"the source {quoted(self.path)} does not exist"


@dataclass(eq=False)
class SourceUnreadable(DatamonError):
    """A file or folder of the source cannot be read. `reason` is what the operating system says."""

    code = ErrorCode.SOURCE_UNREADABLE
    path: str
    reason: str

    def __str__(self) -> str:
        return f"cannot read {quoted(self.path)}: {self.reason}"


@dataclass(eq=False)
class SourceEmpty(DatamonError):
    """There is nothing to upload: the source holds no file, or a filter lets none of them through."""

    code = ErrorCode.SOURCE_EMPTY
    exit_code = 3
    path: str
    filters: str = ""  # in words
    remedy: str = Remedy.NONE

    def __str__(self) -> str:
        if not self.filters:
            return f"{quoted(self.path)} holds no files"
        return f"no file in {quoted(self.path)} passes {self.filters}"


@dataclass(eq=False)
class SourceChanged(DatamonError):
    """A source file changed or vanished while it was uploaded, so what was read may be half old and half new."""

    code = ErrorCode.SOURCE_CHANGED
    path: str

    def __str__(self) -> str:
        return f"{quoted(self.path)} changed while it was uploaded"


@dataclass(eq=False)
class UnfitFile(DatamonError):
    """Something in the source that a bundle cannot hold: a name outside the rules, a device, a link that leads away."""

    code = ErrorCode.UNFIT_FILE
    name: str
    reason: str

    def __str__(self) -> str:
        return f"cannot upload {quoted(self.name)}: {self.reason}"


@dataclass(eq=False)
class SplitFailed(DatamonError):
    """An upload ended as failed."""

    code = ErrorCode.SPLIT_FAILED
    split: str
    reason: str
    cause: str = ""  # the code of the error that it failed with
    details: list[Any] = field(default_factory=list)  # and its fields

    def __str__(self) -> str:
        return f"split {self.split} failed: {self.reason}"


@dataclass(eq=False)
class DestinationInUse(DatamonError):
    """A download must not mix with files that were there before."""

    code = ErrorCode.DESTINATION_IN_USE
    exit_code = 4
    path: str
    reason: str = "is not empty"
    remedy: str = Remedy.FORCE_DOWNLOAD

    def __str__(self) -> str:
        return f"the destination {quoted(self.path)} {self.reason}"


@dataclass(eq=False)
class UnsafePath(DatamonError):
    """A file of a bundle would be written through something in the destination that is not a folder."""

    code = ErrorCode.UNSAFE_PATH
    exit_code = 4
    name: str
    through: str
    kind: str

    def __str__(self) -> str:
        return f"cannot write {quoted(self.name)}: {quoted(self.through)} in the destination is {self.kind}"


@dataclass(eq=False)
class CorruptObject(DatamonError):
    """An object in the store is not what its key promises. `reason` names the field or the line."""

    code = ErrorCode.CORRUPT_OBJECT
    key: str
    reason: str

    def __str__(self) -> str:
        return f"the object {self.key} is damaged: {self.reason}"


@dataclass(eq=False)
class CorruptFile(DatamonError):
    """The bytes in the store do not have the hash that the file list promises. `others` are more such files."""

    code = ErrorCode.CORRUPT_FILE
    name: str
    key: str
    reason: str = "does not match its hash"
    others: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sentence = f"the content of {quoted(self.name)} in {self.key} {self.reason}"
        if not self.others:
            return f"{sentence}; the file was left out"
        named = ", ".join(map(quoted, self.others[:SPELLED_OUT])) + (", …" if len(self.others) > SPELLED_OUT else "")
        return f"{sentence}; the same is true of {counted(len(self.others), 'more file')} ({named}); all were left out"


@dataclass(eq=False)
class StaleWrite(DatamonError):
    """A writer that woke up late: a newer revision of the descriptor is already published."""

    code = ErrorCode.STALE_WRITE
    exit_code = 4
    key: str

    def __str__(self) -> str:
        return f"{self.key} has moved on; this write came too late and changed nothing"


@dataclass(eq=False)
class ObjectChanged(DatamonError):
    """A compare-and-set lost: somebody else replaced the object in between."""

    code = ErrorCode.OBJECT_CHANGED
    retryable = True
    key: str

    def __str__(self) -> str:
        return f"{self.key} was changed by somebody else at the same time"


@dataclass(eq=False)
class NoStore(DatamonError):
    """Nothing has been made in a store yet, or what was there is gone: deleted, or not mounted."""

    code = ErrorCode.NO_STORE
    exit_code = 6
    store: str

    def __str__(self) -> str:
        return f"there is no store at {self.store}"


@dataclass(eq=False)
class ClockSkewed(DatamonError):
    """The clock of this machine and that of the store differ. Times decide which of two versions wins."""

    code = ErrorCode.CLOCK_SKEWED
    exit_code = 6
    store: str
    seconds: int

    def __str__(self) -> str:
        return f"the clock of the store {self.store} and that of this machine differ by {self.seconds:,} s"


@dataclass(eq=False)
class StoreUnreachable(DatamonError):
    """The store cannot be used now: a server that does not answer, a disk that fails."""

    code = ErrorCode.STORE_UNREACHABLE
    exit_code = 6
    retryable = True
    store: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the store {self.store}: {self.reason}"


@dataclass(eq=False)
class StoreFull(DatamonError):
    """There is no room in the store. The write is tried again, because somebody will make room."""

    code = ErrorCode.STORE_FULL
    exit_code = 6
    retryable = True
    needs_a_person = True
    store: str
    reason: str

    def __str__(self) -> str:
        return f"the store {self.store} is full: {self.reason}"


@dataclass(eq=False)
class StoreRefused(DatamonError):
    """The store refuses, and will refuse the next attempt too: wrong credentials, no permission, no such bucket."""

    code = ErrorCode.STORE_REFUSED
    exit_code = 6
    needs_a_person = True
    store: str
    reason: str

    def __str__(self) -> str:
        return f"the store {self.store} refuses: {self.reason}"


@dataclass(eq=False)
class ServerUnreachable(DatamonError):
    """No Temporal server answers."""

    code = ErrorCode.SERVER_UNREACHABLE
    exit_code = 6
    address: str
    reason: str = "no answer"

    def __str__(self) -> str:
        return f"no Temporal server at {self.address} ({self.reason})"


@dataclass(eq=False)
class NoWorker(DatamonError):
    """Nobody polls the task queue that has to do the work."""

    code = ErrorCode.NO_WORKER
    exit_code = 6
    queue: str

    def __str__(self) -> str:
        return f"no worker serves the task queue {self.queue!r}"


_BY_CODE: dict[ErrorCode, type[DatamonError]] = {cls.code: cls for cls in DatamonError.__subclasses__()}


def rebuild(code: str, args: Sequence[Any], words: str = "") -> DatamonError:
    """The error with this code and these args. If this version does not know it, its words are kept."""
    try:
        return _BY_CODE[ErrorCode(code)](*args)
    except (ValueError, TypeError):
        return Failed(words or f"{code}: {', '.join(map(str, args))}")


_Args = ParamSpec("_Args")
_Out = TypeVar("_Out")


def error_as_value(work: Callable[_Args, _Out], *args: _Args.args, **options: _Args.kwargs) -> _Out | DatamonError:
    """Do some work and return its error instead of raising it: only a value comes back whole from a Spark task."""
    try:
        return work(*args, **options)
    except DatamonError as error:
        return error
