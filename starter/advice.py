"""What to do next about an error, for somebody at a terminal: in commands and flags.

Errors only say what happened, and name what would help (`Remedy`). Another interface would word the same
advice differently.
"""

from __future__ import annotations

from datamon.core.errors import (
    ClockSkewed,
    ConflictsForbidden,
    DatamonError,
    DestinationInUse,
    NoStore,
    NothingToCommit,
    NoWorker,
    Remedy,
    ServerUnreachable,
    SourceChanged,
    SplitFailed,
    StoreFull,
    UnfitFile,
    rebuild,
)

_REMEDIES = {
    Remedy.CREATE_REPO: "make it with `datamon repo create --repo {name}`",
    Remedy.INITIALIZE_DIAMOND: "make one with `datamon diamond initialize --repo {repo}`",
    Remedy.OMIT_DIAMOND_ID: "an id is used only once; leave --diamond out to get one",
    Remedy.OMIT_OR_CREATE_SPLIT_ID: "leave --split out to get an id, or choose one with --create",
    Remedy.ADD_NEW_SPLIT: "leave --split out to add a new one",
    Remedy.DECLARE_SERVER_LOST: "if that server is lost for good, add --server-lost",
    Remedy.RECOVER_DIAMOND: "if this is the right server, recover it with `datamon diamond recover`",
    Remedy.LIST_LABELS: "`datamon label list` shows all labels",
    Remedy.END_DIAMONDS: "end open diamonds first, with `datamon diamond commit` or `datamon diamond cancel`",
    Remedy.MOVE_LABEL: "move it with `datamon label set` first",
    Remedy.USE_LABEL: "there is a label of that name: use --label {name}",
    Remedy.LIST_FILES: "`datamon bundle list files` shows all files",
    Remedy.SCHEDULE_HOUSEKEEPING: "make it with `datamon housekeeping schedule`",
    Remedy.STOP_STACK: "stop it with `datamon down`, or set another DATAMON_HOME",
    Remedy.ALLOW_EMPTY: "if that is intended, add --allow-empty",
    Remedy.USE_GLOBS: "--name-filter takes a regular expression; for globs there is --include",
    Remedy.FORCE_DOWNLOAD: "choose another one, or write into it with --force",
}


def sentence(error: DatamonError) -> str:
    """What happened, and what to do next."""
    advice = _advice(error)
    return f"{error}; {advice}" if advice else str(error)


_BY_CLASS: dict[type[DatamonError], str] = {
    ConflictsForbidden: "commit with --with-conflicts to keep them all",
    SourceChanged: "add it again when nothing writes to it",
    UnfitFile: "remove it, or leave it out with --skip-on-error",
    StoreFull: "make room there, and running work then continues by itself",
    NoStore: "make one with `datamon repo create`, or set DATAMON_STORE; if there was one, check that it is mounted",
    ClockSkewed: "synchronize this machine's clock with a time server",
    ServerUnreachable: "start one with `datamon up` or set TEMPORAL_ADDRESS",
    NoWorker: "start one with `datamon up` or `datamon worker`",
}


def _advice(error: DatamonError) -> str:
    match error:
        case NothingToCommit():
            if error.running and not error.waited:
                return "commit with --wait to wait for them"
            return "add each failed split again, with --split and its id" if error.failed else "add a split first"
        case DestinationInUse() if not error.remedy:
            return "choose another one"
        case SplitFailed() if error.cause:
            return _advice(rebuild(error.cause, error.details))
    if type(error) in _BY_CLASS:
        return _BY_CLASS[type(error)]
    named = getattr(error, "remedy", Remedy.NONE)
    remedy = Remedy(named) if named in set(Remedy) else Remedy.NONE  # one of a newer version has no words here
    fields = {name: getattr(error, name, "") for name in ("name", "repo")}
    return _REMEDIES[remedy].format(**fields) if remedy is not Remedy.NONE else ""
