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
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from datamon.starter.warm.surroundings import (
    ACCEPTED,
    ENDED,
    FILES,
    FOLDER,
    FORWARDED,
    GO,
    KILLED,
    LOCK,
    READY,
    SOCKET,
    identity,
)

BACKLOG = 512
MOST_BYTES = 16 << 20  # of a request: arguments and environment
MOST_FILES = 253  # of a message, says the system
REQUEST_SECONDS = 10
RETRY_SECONDS = 1  # after which code that was being installed is looked at again
LOOK_SECONDS = 0.5  # how often it is seen whether the caller was stopped
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve one home until SIGTERM."""
    os.umask(0o077)
    folder = os.path.join(sys.argv[1], FOLDER)
    os.makedirs(folder, exist_ok=True)
    if os.stat(folder).st_uid != os.geteuid():
        return
    os.chmod(folder, 0o700)
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    code = _imported()
    ours = identity()
    gc.collect()
    gc.freeze()  # what is never looked at is never copied
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards end by themselves
    with _listening(folder) as listener:
        while True:
            connection, _ = listener.accept()
            if _stamps() != code:
                connection.close()
                _begin_anew()
            if os.fork() == 0:
                listener.close()
                os.close(lock)
                _guard(connection, ours)
            connection.close()


def _imported() -> dict[str, tuple[int, ...]]:
    """Import what commands need, all of it of one state of the code. Gives that state."""
    began = time.time_ns()
    try:
        _import_all()
    except Exception:  # noqa: BLE001 - it is being installed
        traceback.print_exc()
        time.sleep(RETRY_SECONDS)
        _begin_anew()
    code = _stamps()
    if max(max(stamp) for stamp in code.values()) >= began:
        time.sleep(RETRY_SECONDS)
        _begin_anew()
    return code


def _begin_anew() -> NoReturn:
    name = __spec__.name if __spec__ is not None else __name__
    os.execv(sys.executable, [sys.executable, "-m", name, sys.argv[1]])  # noqa: S606


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


def _stamps() -> dict[str, tuple[int, ...]]:
    """When our code was last written, and when other packages were installed or removed."""
    ours = (
        getattr(module, "__file__", None)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("datamon", "__main__")
    )
    stamps: dict[str, tuple[int, ...]] = {}
    for path in {*ours, *sys.path}:
        with suppress(OSError):
            status = os.stat(path or "/")
            stamps[str(path)] = (status.st_mtime_ns, status.st_ctime_ns)
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
    """Start the command in a process of its own, pass signals on to it, and say how it ended.

    Whatever fails before the caller has said go ends this process, and the caller runs the command itself.
    """
    try:
        connection.settimeout(REQUEST_SECONDS)
        request = _received(connection)
        if request is None or request["identity"] != ours or not _can_limit(request["limits"]):
            os._exit(0)
        connection.sendall(ACCEPTED)
        files = _received_files(connection, 1 + len(request["files"]))
        if files is None:
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        begin, ready = os.pipe(), os.pipe()
        guard = os.getpid()
        command = os.fork()
        if command == 0:
            connection.close()
            os.close(begin[1])
            os.close(ready[0])
            _run(request, files, guard, begin[0], ready[1])
        for file in (*files, begin[0], ready[1]):
            os.close(file)
        ended = os.pidfd_open(command)
        if os.read(ready[0], 1) != READY:
            os._exit(0)
        connection.sendall(READY)
        if connection.recv(1) != GO:
            os._exit(0)
        os.write(begin[1], GO)
        connection.settimeout(None)
        _pass_on(connection, command, ended)
    except Exception:  # noqa: BLE001 - nobody else is there to catch it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _can_limit(limits: dict[str, tuple[int, int]]) -> bool:
    """Whether a process of ours can have the caller's limits: nobody may raise what is limited already."""

    def allowed(theirs: int, ours: int) -> bool:
        return ours == resource.RLIM_INFINITY or (theirs != resource.RLIM_INFINITY and theirs <= ours)

    return all(allowed(hard, resource.getrlimit(getattr(resource, name))[1]) for name, (_, hard) in limits.items())


def _received(connection: socket.socket) -> dict[str, Any] | None:
    size = int.from_bytes(_exactly(connection, 8), "little")
    if not 0 < size <= MOST_BYTES or not _is_same_user(connection):
        return None
    body = _exactly(connection, size)
    return marshal.loads(body) if len(body) == size else None  # noqa: S302 - from a process of the same user


def _exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the caller has gone."""
    body = bytearray()
    while len(body) < size and (more := connection.recv(size - len(body))):
        body += more
    return bytes(body)


def _received_files(connection: socket.socket, count: int) -> list[int] | None:
    files = array.array("i")
    said, ancillary, flags, _ = connection.recvmsg(1, socket.CMSG_LEN(MOST_FILES * files.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    if said != FILES or flags & socket.MSG_CTRUNC or len(files) != count:
        return None
    return list(files)


def _is_same_user(connection: socket.socket) -> bool:
    _, uid, gid = _caller(connection)
    return (uid, gid) == (os.geteuid(), os.getegid())


def _caller(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group at the other end."""
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid, gid


def _pass_on(connection: socket.socket, command: int, ended: int) -> None:
    """Forward signals until the command has ended. If the caller is gone, the command goes too.

    A caller that is stopped by SIGSTOP cannot say so; the command is stopped with it.
    """
    caller, _, _ = _caller(connection)
    stopped = False
    while True:
        ready, _, _ = select.select([connection.fileno(), ended], [], [], LOOK_SECONDS)
        if ended in ready:
            break
        if not ready:
            if _is_stopped(caller) != stopped:
                stopped = not stopped
                os.kill(command, signal.SIGSTOP if stopped else signal.SIGCONT)
            continue
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


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False


def _run(request: dict[str, Any], files: list[int], guard: int, begin: int, ready: int) -> NoReturn:
    """Be the command: with its files, its folder, its environment, its limits. It begins when the guard says so."""
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the caller's files may have high numbers
        begin, ready = _take_over_files(request, files, [begin, ready])
        _take_over_signals(request)
        os.umask(request["umask"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        sys.argv = request["argv"]
        for name, limits in request["limits"].items():
            resource.setrlimit(getattr(resource, name), tuple(limits))
        os.write(ready, READY)
        if os.read(begin, 1) != GO:
            os._exit(1)
        os.close(begin)
        os.close(ready)
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


def _take_over_files(request: dict[str, Any], files: list[int], own: list[int]) -> list[int]:
    """Give every file the number that it had. Ours are moved out of the way first; gives their new numbers."""
    where, *handed = files
    os.fchdir(where)
    free = max([*request["files"], *files, *own, 2]) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, free) for file in handed]
    own_moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, free) for file in own]
    for file in (*files, *own):
        os.close(file)
    for number, file in zip(request["files"], moved, strict=True):
        os.dup2(file, number, inheritable=True)
        os.close(file)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = _stream(number, mode, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return own_moved


def _stream(number: int, mode: str, like: Any) -> io.TextIOWrapper:
    """A stream of the interpreter, as it makes them when it starts."""
    unbuffered = mode == "w" and like.write_through
    raw = open(number, f"{mode}b", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    by_lines = mode == "w" and (number == 2 or os.isatty(number))
    return io.TextIOWrapper(
        raw, like.encoding, like.errors, line_buffering=by_lines and not unbuffered, write_through=unbuffered
    )


if __name__ == "__main__":
    main()
