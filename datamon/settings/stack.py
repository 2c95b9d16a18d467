"""The embedded stack of a home folder: whether one runs, and where it is reached.

`datamon up` leaves `stack.json` in the home folder for the other commands, and holds a lock there as long as it
lives. So a file left behind by a crash is not mistaken for a running stack.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from datamon.core.errors import Remedy, WrongState

_locks: list[IO[bytes]] = []


@dataclass(frozen=True)
class Stack:
    """What `datamon up` runs."""

    address: str
    ui: str
    store: str


def running_stack(home: Path) -> Stack | None:
    """The stack that runs from this home folder, once it is ready."""
    if not is_stack_alive(home):
        return None
    try:
        return msgspec.json.decode((home / "stack.json").read_bytes(), type=Stack)
    except (FileNotFoundError, msgspec.DecodeError):  # it is just starting or stopping
        return None


@contextmanager
def hold_stack(home: Path) -> Iterator[Path]:
    """Be the one stack of a home folder. Yields the file to announce it in, which is removed afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    announcement = home / "stack.json"
    lock = (home / "up.lock").open("a+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise stack_exists(home) from None
    _locks.append(lock)  # never closed: others wait until the process ends
    lock.truncate(0)
    lock.write(b"%d" % os.getpid())
    lock.flush()
    announcement.unlink(missing_ok=True)
    try:
        yield announcement
    finally:
        announcement.unlink(missing_ok=True)


def stack_exists(home: Path) -> WrongState:
    """The refusal to start a second stack."""
    return WrongState("the stack of", str(home), "running", "only one runs from a home folder", Remedy.STOP_STACK)


def stack_pid(home: Path) -> int | None:
    """The process of this home folder's stack, whether it is ready, starting or stopping."""
    try:
        return int((home / "up.lock").read_bytes()) if is_stack_alive(home) else None
    except (OSError, ValueError):
        return None


def is_stack_alive(home: Path) -> bool:
    """Whether a stack runs from this home folder; it may be ready, starting or stopping."""
    try:
        with (home / "up.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    return False
