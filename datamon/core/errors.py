"""One family of errors that a person can act on.

Every error has a code, fields, and a sentence that says what happened. What to do next depends on where one stands, at
a terminal or behind a URL, so it is added there: see `Remedy`. The fields are plain values, so an error crosses pickle
(out of a Spark task) and Temporal (out of an activity), and is raised again on the other side as the same class:
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
    SOURCE_CHANGED = "SourceChanged"
    UNFIT_FILE = "UnfitFile"
    SPLIT_FAILED = "SplitFailed"
    DESTINATION_IN_USE = "DestinationInUse"
    UNSAFE_PATH = "UnsafePath"
    CORRUPT_OBJECT = "CorruptObject"
    CORRUPT_FILE = "CorruptFile"
    STALE_WRITE = "StaleWrite"
    OBJECT_CHANGED = "ObjectChanged"
    STORE_UNREACHABLE = "StoreUnreachable"
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
    LIST_LABELS = "list-labels"
    LIST_FILES = "list-files"
    SCHEDULE_HOUSEKEEPING = "schedule-housekeeping"
    STOP_STACK = "stop-stack"
    FORCE_DOWNLOAD = "force-download"


@dataclass(eq=False)
class DatamonError(Exception):
    """Base of the family. Subclasses are dataclasses whose fields are plain values."""

    code: ClassVar[ErrorCode] = ErrorCode.FAILED
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False  # whether the same call may succeed later, with nobody doing anything

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
    repo: str = ""  # that it would be in

    def __str__(self) -> str:
        return f"there is no {self.kind} {self.name!r}"


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
    """A commit needs done splits, at least one or as many as the caller said."""

    code = ErrorCode.NOTHING_TO_COMMIT
    exit_code = 4
    diamond: str
    done: int
    running: int
    failed: int
    needed: int = 1

    def __str__(self) -> str:
        if self.needed == 1 and not self.done:
            missing = f"diamond {self.diamond} has no done split"
        else:
            done = counted(self.done, "done split")
            missing = f"diamond {self.diamond} has {done}, fewer than the {self.needed} asked for"
        return f"{missing} ({self.running} running, {self.failed} failed)"


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
    """A file or folder of the source cannot be read. `reason` is the operating system's word for it."""

    code = ErrorCode.SOURCE_UNREADABLE
    path: str
    reason: str

    def __str__(self) -> str:
        return f"cannot read {quoted(self.path)}: {self.reason}"


@dataclass(eq=False)
class SourceChanged(DatamonError):
    """A source file changed or vanished while it was uploaded, so its content is nobody's intention."""

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
    """A file of a bundle would be written through something in the destination that is no folder."""

    code = ErrorCode.UNSAFE_PATH
    exit_code = 4
    name: str
    through: str
    kind: str

    def __str__(self) -> str:
        return f"cannot write {quoted(self.name)}: {quoted(self.through)} in the destination is {self.kind}"


@dataclass(eq=False)
class CorruptObject(DatamonError):
    """An object in the store is not what its place says: `reason` names the field or the line."""

    code = ErrorCode.CORRUPT_OBJECT
    key: str
    reason: str

    def __str__(self) -> str:
        return f"the object {self.key} is damaged: {self.reason}"


@dataclass(eq=False)
class CorruptFile(DatamonError):
    """The bytes in the store do not have the hash that the file list promises. `others` are files in the same case."""

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
        return f"{sentence}, and so it is with {counted(len(self.others), 'more file')} ({named}); they were left out"


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
class StoreUnreachable(DatamonError):
    """The store cannot be used now: a full or read-only disk, a server that does not answer."""

    code = ErrorCode.STORE_UNREACHABLE
    exit_code = 6
    retryable = True
    store: str
    reason: str

    def __str__(self) -> str:
        return f"cannot use the store {self.store}: {self.reason}"


@dataclass(eq=False)
class StoreRefused(DatamonError):
    """The store says no, and will go on saying so: wrong credentials, no permission, no such bucket."""

    code = ErrorCode.STORE_REFUSED
    exit_code = 6
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


def rebuild(code: str, args: Sequence[Any]) -> DatamonError:
    """The error that had this code and these args. One that this version does not know keeps its words."""
    try:
        return _BY_CODE[ErrorCode(code)](*args)
    except (ValueError, TypeError):
        return Failed(f"{code}: {', '.join(map(str, args))}")


_Args = ParamSpec("_Args")
_Out = TypeVar("_Out")


def error_as_value(work: Callable[_Args, _Out], *args: _Args.args, **options: _Args.kwargs) -> _Out | DatamonError:
    """Do some work and return its error instead of raising it: out of a Spark task only a value comes back whole."""
    try:
        return work(*args, **options)
    except DatamonError as error:
        return error
