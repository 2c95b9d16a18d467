"""Where things are: the home folder, the store, this host, and the embedded stack if it runs.

What can be set, and how, is in `datamon.config`.

`datamon up` leaves `stack.json` in the home folder for the other commands, and holds a lock there as long as
it lives; so a file left behind by a crash is not mistaken for a running stack.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from datamon import config
from datamon.errors import BadUsage, WrongState
from datamon.model import Contributor
from datamon.stores import Context, open_context

_held: list[IO[bytes]] = []


@dataclass(frozen=True)
class Stack:
    """What `datamon up` runs."""

    address: str
    ui: str
    store: str


@dataclass(frozen=True)
class Settings:
    """What a command or worker needs to know of its surroundings."""

    home: Path
    store: str
    host: str
    contributor: Contributor
    spark_master: str
    sources: str = ""
    janitor_profile: str = ""
    log_format: str = "text"
    log_level: str = "info"
    metrics: str = ""
    encryption_key: str = field(default="", repr=False)
    tracing: str = field(default="", repr=False)  # a URL may hold a password
    temporal: Mapping[str, str] = field(default_factory=dict, repr=False)  # its variables, keys and all

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings of this process. A store that is not named is the running stack's, else the home's."""
        environment = config.environment() if environment is None else environment
        home = Path(environment.get("DATAMON_HOME") or Path.home() / ".datamon").expanduser().absolute()
        store = environment.get("DATAMON_STORE")
        if not store:
            stack = running_stack(home)
            store = stack.store if stack else str(home / "store")
        elif "://" not in store:
            store = str(Path(store).expanduser().absolute())
        return cls(
            home=home,
            store=store,
            host=environment.get("DATAMON_HOST") or socket.gethostname(),
            contributor=_contributor(environment.get("DATAMON_CONTRIBUTOR") or _login()),
            sources=environment.get("DATAMON_SOURCES") or "",
            spark_master=environment.get("DATAMON_SPARK_MASTER") or "local[*]",
            janitor_profile=environment.get("DATAMON_JANITOR_PROFILE") or "",
            log_format=environment.get("DATAMON_LOG_FORMAT") or "text",
            log_level=environment.get("DATAMON_LOG_LEVEL") or "info",
            metrics=environment.get("DATAMON_METRICS") or "",
            encryption_key=environment.get("DATAMON_ENCRYPTION_KEY") or "",
            tracing=environment.get("DATAMON_TRACING") or "",
            temporal={name: value for name, value in environment.items() if name.startswith("TEMPORAL_")},
        )

    def context(self) -> Context:
        """The stores."""
        return open_context(self.store)

    def janitor_context(self) -> Context:
        """The stores as housekeeping sees them: it may delete where others may not."""
        return open_context(self.store, self.janitor_profile)


def running_stack(home: Path) -> Stack | None:
    """The stack that runs from this home folder, once it is ready."""
    if not is_held(home):
        return None
    try:
        return msgspec.json.decode((home / "stack.json").read_bytes(), type=Stack)
    except (FileNotFoundError, msgspec.DecodeError):  # it is just starting or stopping
        return None


@contextmanager
def holding_stack(home: Path) -> Iterator[Path]:
    """Be the one stack of a home folder; gives the file to announce it in, which is gone afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    announcement = home / "stack.json"
    lock = (home / "up.lock").open("a+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise stack_exists(home) from None
    _held.append(lock)  # never closed: it is the end of the process that others wait for
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
    return WrongState("the stack of", str(home), "running", "stop it with `datamon down`, or set another DATAMON_HOME")


def stack_pid(home: Path) -> int | None:
    """The process that is the stack of this home folder, be it ready or on its way up or down."""
    try:
        return int((home / "up.lock").read_bytes()) if is_held(home) else None
    except (OSError, ValueError):
        return None


def is_held(home: Path) -> bool:
    """Whether a stack runs from this home folder, be it ready or on its way up or down."""
    try:
        with (home / "up.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    return False


def _contributor(text: str) -> Contributor:
    found = re.fullmatch(r"\s*([^<>]*?)\s*(?:<([^<>]*)>)?\s*", text)
    if found is None or not (found[1] or found[2]):
        raise BadUsage(f"DATAMON_CONTRIBUTOR is {text!r}; write it as 'Name <email>'")
    return Contributor(found[1] or found[2], found[2] or "")


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"
