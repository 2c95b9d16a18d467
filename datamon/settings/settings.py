"""What a command or worker needs to know of its surroundings: the home folder, the store, this host."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datamon.content.compression import MAX_LEVEL, OFF, USUAL_LEVEL
from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage
from datamon.settings import configuration
from datamon.settings.stack import running_stack
from datamon.stores.context import Context, open_context


@dataclass(frozen=True)
class Settings:
    """What a command or worker needs to know of its surroundings."""

    home: Path
    store: str
    host: str
    contributor: Contributor
    spark_master: str
    sources: str = ""
    compression: int = USUAL_LEVEL
    cache: str = ""
    housekeeping_profile: str = ""
    log_format: str = "text"
    log_level: str = "info"
    metrics: str = ""
    encryption_key: str = field(default="", repr=False)
    tracing: str = field(default="", repr=False)  # a URL may hold a password
    temporal: Mapping[str, str] = field(default_factory=dict, repr=False)  # its variables, keys and all

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings of this process. A store that is not named is the running stack's, else the home's."""
        environment = configuration.environment() if environment is None else environment
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
            compression=_level(environment.get("DATAMON_COMPRESSION") or str(USUAL_LEVEL)),
            cache=_cache(environment.get("DATAMON_CACHE") or "", home),
            spark_master=environment.get("DATAMON_SPARK_MASTER") or "local[*]",
            housekeeping_profile=environment.get("DATAMON_HOUSEKEEPING_PROFILE") or "",
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

    def housekeeping_context(self) -> Context:
        """The stores as housekeeping sees them: it may delete where others may not."""
        return open_context(self.store, self.housekeeping_profile)


def _level(text: str) -> int:
    if text == "off":
        return OFF
    if not (text.isdecimal() and 1 <= int(text) <= MAX_LEVEL):
        raise BadUsage(f"DATAMON_COMPRESSION is {text!r}; set it to a level from 1 to {MAX_LEVEL}, or to off")
    return int(text)


def _cache(text: str, home: Path) -> str:
    if text == "off":
        return ""
    return str(Path(text).expanduser().absolute()) if text else str(home / "cache")


def _contributor(text: str) -> Contributor:
    contributor = Contributor.parse(text)
    if contributor is None:
        raise BadUsage(f"DATAMON_CONTRIBUTOR is {text!r}; write it as 'Name <email>'")
    return contributor


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"
