"""The server's side: a process that has everything imported and nothing started, and forks for every command.

    python -m datamon.starter.warm.server HOME

There is one server for each home. The next one waits until the lock is free, so a worker that is replaced leaves no gap
longer than its start. If the code changes on disk, the server starts itself anew.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import gc
import importlib
import io
import marshal
import os
import pkgutil
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from datamon.starter.warm.surroundings import (
    ACCEPTED,
    ENDED,
    FOLDER,
    FORWARDED,
    GO,
    KILLED,
    LOCK,
    REFUSED,
    SOCKET,
    identity,
)

BACKLOG = 512
MOST_BYTES = 16 << 20  # of a request: arguments and environment
MOST_FILES = 253  # of a message, says the system
REQUEST_SECONDS = 10
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve one home until SIGTERM."""
    os.umask(0o077)
    folder = os.path.join(sys.argv[1], FOLDER)
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o700)
    if os.stat(folder).st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _import_all()
    code = _stamps()
    ours = identity()
    gc.collect()
    gc.freeze()  # what is never looked at is never copied
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards end by themselves
    with _listening(folder) as listener:
        while True:
            connection, _ = listener.accept()
            if _stamps() != code:
                connection.close()
                os.execv(sys.executable, [sys.executable, "-m", __spec__.name, sys.argv[1]])  # noqa: S606
            if os.fork() == 0:
                listener.close()
                os.close(lock)
                _guard(connection, ours)
            connection.close()


def _import_all() -> None:
    """Import what any command needs."""
    import datamon.starter.commands

    for module in pkgutil.walk_packages(datamon.starter.commands.__path__, "datamon.starter.commands."):
        importlib.import_module(module.name)
    for name in (
        "boto3",
        "botocore.session",
        "s3transfer.manager",
        "datamon.starter.cli",
        "datamon.starter.client",
        "datamon.starter.progress",
        "datamon.stores.s3",
        "datamon.worker.connection.client",
        "temporalio.client",
        "temporalio.worker",
        "rich.progress",
    ):
        importlib.import_module(name)


def _stamps() -> dict[str, tuple[int, int]]:
    """When each file of our code was last written."""
    stamps = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.partition(".")[0] == "datamon":
            try:
                status = os.stat(path)
            except OSError:
                stamps[path] = (0, 0)
            else:
                stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps


def _listening(folder: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=where)
    listener.bind(f"/proc/self/fd/{where}/{SOCKET}")
    os.close(where)
    listener.listen(BACKLOG)
    return listener


def _guard(connection: socket.socket, ours: list[str]) -> NoReturn:
    """Start the command in a process of its own, pass signals on to it, and say how it ended."""
    try:
        connection.settimeout(REQUEST_SECONDS)
        request, files = _received(connection)
        if request is None or request["identity"] != ours or not _can_limit(request["limits"]):
            connection.sendall(REFUSED)
            os._exit(0)
        connection.sendall(ACCEPTED)
        if connection.recv(1) != GO:
            os._exit(0)
        connection.settimeout(None)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        guard = os.getpid()
        command = os.fork()
        if command == 0:
            connection.close()
            _run(request, files, guard)
        for file in files:
            os.close(file)
        _pass_on(connection, command)
    except OSError:
        os._exit(1)
    os._exit(0)


def _can_limit(limits: dict[str, tuple[int, int]]) -> bool:
    """Whether a process of ours can have the caller's limits: nobody may raise what is limited already."""

    def allowed(theirs: int, ours: int) -> bool:
        return ours == resource.RLIM_INFINITY or (theirs != resource.RLIM_INFINITY and theirs <= ours)

    return all(allowed(hard, resource.getrlimit(getattr(resource, name))[1]) for name, (_, hard) in limits.items())


def _received(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    files = array.array("i")
    head, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_LEN(MOST_FILES * files.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    for file in files:
        os.set_inheritable(file, False)  # noqa: FBT003
    size = int.from_bytes(head, "little")
    if len(head) < 8 or size > MOST_BYTES or not _is_same_user(connection):
        return None, list(files)
    body = b""
    while len(body) < size:
        more = connection.recv(size - len(body))
        if not more:
            return None, list(files)
        body += more
    return marshal.loads(body), list(files)  # noqa: S302 - from a process of the same user


def _is_same_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, gid = struct.unpack("3i", credentials)
    return (uid, gid) == (os.geteuid(), os.getegid())


def _pass_on(connection: socket.socket, command: int) -> None:
    """Forward signals until the command has ended. If the caller is gone, the command goes too."""
    ended = os.pidfd_open(command)
    while True:
        ready, _, _ = select.select([connection.fileno(), ended], [], [])
        if ended in ready:
            break
        try:
            numbers = connection.recv(64)
        except ConnectionError:
            numbers = b""
        for number in numbers or [signal.SIGKILL]:
            if number in (*FORWARDED, signal.SIGSTOP, signal.SIGKILL):
                os.kill(command, number)
        if not numbers:
            break
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        if os.WIFSIGNALED(status):
            connection.sendall(bytes([KILLED, os.WTERMSIG(status)]))
        else:
            connection.sendall(bytes([ENDED, os.WEXITSTATUS(status)]))


def _run(request: dict[str, Any], files: list[int], guard: int) -> NoReturn:
    """Be the command: with its files, its folder, its environment, its limits."""
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        _take_over_signals(request)
        _take_over_files(request, files)
        os.umask(request["umask"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        sys.argv = request["argv"]
        for name, limits in request["limits"].items():
            resource.setrlimit(getattr(resource, name), tuple(limits))
    except BaseException:  # noqa: BLE001 - nobody else is there to catch it
        os._exit(1)
    from datamon.starter.cli import main as command

    command()


def _take_over_signals(request: dict[str, Any]) -> None:
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])


def _take_over_files(request: dict[str, Any], files: list[int]) -> None:
    """Give every file the number that it had. Ours are moved out of the way first."""
    where, *handed = files
    os.fchdir(where)
    free = max([*request["files"], *handed, 2]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, free) for file in handed]
    for file in files:
        os.close(file)
    for number, file in zip(request["files"], moved, strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = _stream(number, mode, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _stream(number: int, mode: str, like: Any) -> io.TextIOWrapper:
    """A stream of the interpreter, as it makes them when it starts."""
    raw = open(number, f"{mode}b", closefd=False)  # noqa: SIM115
    by_lines = mode == "w" and (number == 2 or os.isatty(number))
    return io.TextIOWrapper(raw, like.encoding, like.errors, line_buffering=by_lines)


if __name__ == "__main__":
    main()
