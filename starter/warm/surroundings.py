"""What a process inherits, and a command that runs in another process must have as its own.

Imported by every command before anything else, so it imports only what costs nothing.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = "warm"  # in DATAMON_HOME
SOCKET = "socket"
LOCK = "lock"
ACCEPTED, FILES, READY, GO = b"a", b"f", b"r", b"g"  # server, caller, server, caller; anything else ends it
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
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "SSL_", "OPENSSL", "MALLOC_", "GLIBC_", "COVERAGE", "RUST_")
_STATUS = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", "Mems_allowed:")
_OF_A_TERMINAL = re.compile(r"(session|vte-spawn|app)-[^/]*\.scope")  # control groups that limit nothing
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
        f"{sys.flags} {sys.warnoptions} {sys._xoptions}",  # noqa: SLF001
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_READ_AT_START)),
        *(line for line in status if line.startswith(_STATUS)),
        *(_link(f"/proc/self/ns/{name}") for name in _NAMESPACES),
        _link("/proc/self/root"),
        _OF_A_TERMINAL.sub("", "\n".join(_lines("/proc/self/cgroup"))),
        f"{os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)}",
        *_lines("/proc/self/oom_score_adj"),
        *_lines("/proc/self/attr/current"),
    ]


def _lines(path: str) -> list[str]:
    """The lines of a file of the system; none where it has no such file, or nothing to say in it."""
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


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
