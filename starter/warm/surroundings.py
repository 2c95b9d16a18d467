"""What a process inherits, and a command that runs in another process must have as its own.

Imported by every command before anything else, so it imports only what costs nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = "warm"  # in DATAMON_HOME
SOCKET = "socket"
LOCK = "lock"
ACCEPTED, REFUSED, GO = b"y", b"n", b"g"  # the server accepts; only if the caller still waits, it says go
ENDED, KILLED = 0, 1  # first of the two bytes that say how a command has ended

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGWINCH,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)

# What Python, its libraries and the system read from the environment once, when a process starts.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "SSL_", "OPENSSL", "MALLOC_", "COVERAGE", "RUST_")
_STATUS = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:")
_NAMESPACES = ("mnt", "net", "pid", "user", "uts", "ipc", "cgroup")


def home_of(environment: Mapping[str, str]) -> str:
    """The home whose server a command asks. The command itself finds out which home it uses; any server will do."""
    return os.path.abspath(os.path.expanduser(environment.get("DATAMON_HOME") or "~/.datamon"))


def identity() -> list[str]:
    """What must be the same in both processes: the program, who runs it, what they may, and what they see."""
    status = _lines("/proc/self/status")
    return [
        sys.executable,
        sys.version,
        __file__,
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_READ_AT_START)),
        *(line for line in status if line.startswith(_STATUS)),
        *(_link(f"/proc/self/ns/{name}") for name in _NAMESPACES),
        _link("/proc/self/root"),
        str(os.getpriority(os.PRIO_PROCESS, 0)),
    ]


def _lines(path: str) -> list[str]:
    with open(path) as file:
        return file.read().splitlines()


def _link(path: str) -> str:
    return os.readlink(path)


def inherited() -> dict[str, Any]:
    """What the command takes over from the caller, but for open files."""
    import resource

    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "argv": sys.argv,
        "environment": dict(os.environ),
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "ignored": [int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN],
        "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    }


def open_files() -> list[int]:
    """The numbers of the files that a program inherits which this process starts."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                numbers.append(int(name))
        except OSError:  # that of the listing itself
            continue
    return sorted(numbers)
