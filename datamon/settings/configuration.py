"""Where settings come from. The first that has a value decides.

    flags                       datamon --store /data/store …
    the environment             DATAMON_STORE, TEMPORAL_ADDRESS
    datamon.toml                the nearest one above the current folder, or the one that DATAMON_CONFIG names
    datamon.toml of the user    in ~/.config/datamon
    defaults

In a datamon.toml, `temporal.address` is `address` in the table `[temporal]`, and a relative path is relative to the
file. The rest of datamon sees only an environment, which `environment()` returns.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from datamon.core.errors import BadUsage
from datamon.core.text import os_reason

FILE = "datamon.toml"


@dataclass(frozen=True)
class Setting:
    """Something that can be set. Its default is described in words."""

    name: str
    variable: str
    default: str
    about: str
    secret: bool = False
    is_path: bool = False

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace(".", "-").replace("_", "-")


SETTINGS = (
    Setting("home", "DATAMON_HOME", "~/.datamon", "Database and logs of the embedded server.", is_path=True),
    Setting(
        "store",
        "DATAMON_STORE",
        "that of the running stack, else store in the home",
        "A directory, or s3://bucket/prefix.",
        is_path=True,
    ),
    Setting("contributor", "DATAMON_CONTRIBUTOR", "the login name", "Name <email>, recorded with what you make."),
    Setting("host", "DATAMON_HOST", "the host name", "Names the task queue of this machine's disks."),
    Setting("sources", "DATAMON_SOURCES", "all", "The only folders that workers upload from, separated by `:`."),
    Setting("compression", "DATAMON_COMPRESSION", "3", "How hard workers compress: a level of zstd, 1 to 19, or off."),
    Setting(
        "cache",
        "DATAMON_CACHE",
        "cache in the home",
        "A folder on a local disk in which workers remember unchanged files, or off.",
        is_path=True,
    ),
    Setting("spark_master", "DATAMON_SPARK_MASTER", "local[*]", "Or spark://…, k8s://… or yarn."),
    Setting(
        "housekeeping_profile",
        "DATAMON_HOUSEKEEPING_PROFILE",
        "none",
        "AWS profile that a worker does housekeeping with.",
    ),
    Setting("log_format", "DATAMON_LOG_FORMAT", "text", "How workers write their log: text or json."),
    Setting("log_level", "DATAMON_LOG_LEVEL", "info", "How much they log: debug, info, warning or error."),
    Setting("metrics", "DATAMON_METRICS", "none", "Where workers serve Prometheus metrics: 127.0.0.1:9464."),
    Setting("tracing", "DATAMON_TRACING", "none", "Where traces go by OTLP: http://collector:4318/v1/traces."),
    Setting(
        "encryption_key",
        "DATAMON_ENCRYPTION_KEY",
        "none",
        "32 bytes in base64. With it, all that goes through Temporal is encrypted.",
        secret=True,
    ),
    Setting("temporal.address", "TEMPORAL_ADDRESS", "the running stack, else localhost:7233", "The Temporal server."),
    Setting("temporal.namespace", "TEMPORAL_NAMESPACE", "default", "Its namespace."),
    Setting("temporal.profile", "TEMPORAL_PROFILE", "default", "A profile of temporal.toml, with TLS and API key."),
    Setting("temporal.api_key", "TEMPORAL_API_KEY", "none", "The API key for the server.", secret=True),
)


@dataclass(frozen=True)
class Layer:
    """Values by variable, and where they are from."""

    source: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Resolved:
    """The value of a setting, and where it was set. None: nobody has set it, so its default applies."""

    setting: Setting
    value: str | None
    source: str


_flags: dict[str, str] = {}


def set_flag(variable: str, value: str) -> None:
    """Record a setting that was given on the command line."""
    _flags[variable] = value


def forget_flags() -> None:
    """Use only the environment and files again."""
    _flags.clear()


def environment() -> dict[str, str]:
    """The environment of this process, with what flags and files say."""
    merged: dict[str, str] = {}
    for layer in reversed(list(layers())):
        merged |= layer.values
    return merged


def resolve_all() -> list[Resolved]:
    """Every setting, with where it was set."""
    known = list(layers())
    return [_resolve(setting, known) for setting in SETTINGS]


def _resolve(setting: Setting, known: list[Layer]) -> Resolved:
    for layer in known:
        if layer.values.get(setting.variable):
            return Resolved(setting, layer.values[setting.variable], layer.source)
    return Resolved(setting, None, "default")


def layers() -> Iterator[Layer]:
    """All layers, in order of precedence."""
    yield Layer("flag", {variable: value for variable, value in _flags.items() if value})
    yield Layer("environment", {variable: value for variable, value in os.environ.items() if value})
    for path in _files():
        yield Layer(str(path), _read(path))


def _files() -> Iterator[Path]:
    named = _flags.get("DATAMON_CONFIG") or os.environ.get("DATAMON_CONFIG")
    if named:
        yield Path(named).expanduser().absolute()
        return
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed
        here = Path("/")
    above = (folder / FILE for folder in (here, *here.parents))
    nearest = next((path for path in above if path.is_file()), None)
    if nearest is not None and nearest.stat().st_uid not in (
        os.getuid(),
        0,
    ):  # it could send us, and our keys, to any server
        raise BadUsage(f"{nearest} belongs to another user; if you trust it, name it in DATAMON_CONFIG")
    users = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "datamon" / FILE
    if nearest is not None:
        yield nearest
    if users != nearest and users.is_file():
        yield users


def _read(path: Path) -> dict[str, str]:
    """A file as an environment. An unknown name is refused: a typing error must not silently have no effect."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path} cannot be read: {os_reason(error) if isinstance(error, OSError) else error}") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits does not raise TOMLDecodeError
        raise BadUsage(f"{path} is not TOML: {error}") from error
    known = {setting.name: setting for setting in SETTINGS}
    values: dict[str, str] = {}
    for name, value in _flat(table):
        if name not in known:
            raise BadUsage(f"{path}: there is no setting `{name}`; there are {', '.join(known)}")
        if not isinstance(value, str):
            shown = "not text" if known[name].secret or isinstance(value, dict | list) else repr(value)
            raise BadUsage(f'{path}: `{name}` is {shown}; write it as "text"')
        if value:
            values[known[name].variable] = _rooted(value, path.parent) if known[name].is_path else value
    return values


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and not prefix:  # no setting is nested deeper
            yield from _flat(value, f"{name}.")
        else:
            yield prefix + name, value


def _rooted(path: str, folder: Path) -> str:
    return path if "://" in path or path == "off" else str(folder / Path(path).expanduser())
