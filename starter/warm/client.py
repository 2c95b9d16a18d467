"""The command's side: ask the server of this home to run it, pass signals on, and end as it has ended.

Imported by every command before anything else, so it imports only what costs nothing.
"""

from __future__ import annotations

import array
import marshal
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from datamon.starter.warm.surroundings import (
    ACCEPTED,
    ENDED,
    FILES,
    FOLDER,
    FORWARDED,
    GO,
    READY,
    SOCKET,
    home_of,
    identity,
    inherited,
    open_files,
)

ANSWER_SECONDS = 2  # of a server that is too busy to say whether it runs the command, the command does without
MOST_FILES = 200  # open ones that can be handed over
_OWN_PROCESS = frozenset({"up", "worker"})  # what runs for long, and starts others
_ASKS = frozenset({"delete", "-"})  # what may read from a terminal, where only a process of its session should


def run_warm() -> None:
    """Have a server run this command, and end with its exit code. Returns if the command is to run in this process."""
    if os.environ.get("DATAMON_NO_FORK") or sys.platform != "linux" or _needs_own_process():
        return
    try:
        connection = _asked()
    except (OSError, ValueError):  # there is no server, or it does not answer
        return
    if connection is not None:
        _end(connection)


def _needs_own_process() -> bool:
    words = set(sys.argv)
    try:
        return bool(_OWN_PROCESS & words) or (os.isatty(0) and (bool(_ASKS & words) or os.tcgetpgrp(0) != os.getpgrp()))
    except OSError:  # it is the terminal of another session
        return True


def _asked() -> socket.socket | None:
    """A connection to a server that has begun to run the command; None if it must not."""
    home = os.open(os.path.join(home_of(os.environ), FOLDER), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        owned = os.fstat(home)
        if owned.st_uid != os.geteuid() or owned.st_mode & 0o077:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        files = open_files()
        if not {0, 1, 2} <= set(files) or len(files) > MOST_FILES:
            return None
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(f"/proc/self/fd/{home}/{SOCKET}")  # a path may be too long for a socket
    finally:
        os.close(home)
    request = marshal.dumps({"identity": identity(), "files": files, **inherited()})
    connection.sendall(len(request).to_bytes(8, "little") + request)
    if connection.recv(1) == ACCEPTED:
        _send_files(connection, files)  # not before: a server that is stopped would keep a pipe open
        if connection.recv(1) == READY:
            connection.settimeout(None)
            connection.sendall(GO)  # without it the command does not begin: it must not run here and there
            return connection
    connection.close()
    return None


def _send_files(connection: socket.socket, files: list[int]) -> None:
    where = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        rights = array.array("i", [where, *files])
        connection.sendmsg([FILES], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    finally:
        os.close(where)


def _end(connection: socket.socket) -> NoReturn:
    """Wait for the end of the command, and end in the same way."""
    _forward_signals(connection)
    ending = _received(connection)
    if len(ending) < 2:  # whoever ran the command was killed, and the command with it
        os.write(2, b"datamon: the process that ran this command was killed\n")
        os._exit(128 + signal.SIGKILL)
    how, number = ending
    if how == ENDED:
        os._exit(number)
    with suppress(OSError):  # of SIGKILL nobody can change what it does
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _received(connection: socket.socket) -> bytes:
    ending = b""
    with suppress(ConnectionError):
        while len(ending) < 2 and (more := connection.recv(2 - len(ending))):
            ending += more
    return ending


def _forward_signals(connection: socket.socket) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):  # the command has ended
            connection.send(bytes([number]))

    def stop(_number: int, _frame: FrameType | None) -> None:  # Ctrl-Z: first the command, then this process
        forward(signal.SIGSTOP, None)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # where nobody could continue this process, the system does not stop it
        signal.signal(signal.SIGTSTP, stop)
        forward(signal.SIGCONT, None)

    for number in (*FORWARDED, signal.SIGTSTP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop if number == signal.SIGTSTP else forward)
