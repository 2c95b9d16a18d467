"""Which Temporal server to talk to.

In this order: TEMPORAL_ADDRESS or TEMPORAL_PROFILE in the environment; the stack that `datamon up` runs from
DATAMON_HOME; the default profile of temporal.toml; localhost:7233. TLS, API keys and namespaces come from Temporal's
own environment variables and profiles.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.envconfig import ClientConfig, ClientConfigProfile

from datamon.core.errors import BadUsage
from datamon.settings.settings import Settings
from datamon.settings.stack import running_stack


def connect_options(settings: Settings) -> dict[str, Any]:
    """The arguments for `Client.connect`."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    try:
        config: dict[str, Any] = dict(
            ClientConfig.load_client_connect_config(override_env_vars=others | dict(settings.temporal))
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise BadUsage(f"Temporal's configuration cannot be used: {error}") from error
    stack = running_stack(settings.home)
    if stack is not None and not has_explicit_server(settings):
        return options_at(stack.address, settings)
    config.setdefault("target_host", "localhost:7233")
    return config | options_at(config["target_host"], settings)


def options_at(address: str, settings: Settings) -> dict[str, Any]:
    """The arguments for a server at a known address."""
    return {"target_host": address, "identity": f"{os.getpid()}@{settings.host}"}


@dataclass(frozen=True)
class Profile:
    """What a profile of Temporal's own configuration file sets."""

    source: str
    gives: frozenset[str]


def temporal_profile(settings: Settings) -> Profile:
    """The profile in use, without what environment variables add."""
    name = settings.temporal.get("TEMPORAL_PROFILE")
    file = settings.temporal.get("TEMPORAL_CONFIG_FILE")
    try:
        profile = ClientConfigProfile.load(name, config_source=Path(file) if file else None, disable_env=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadUsage(f"Temporal's configuration cannot be used: {error}") from error
    given = {field for field in ("address", "namespace", "api_key", "tls") if getattr(profile, field)}
    given |= {"tls"} if profile.api_key else set()  # with an API key, TLS is the default
    return Profile(f"profile {name or 'default'} of {file or 'temporal.toml'}", frozenset(given))


def has_explicit_server(settings: Settings) -> bool:
    """Whether somebody chose a server, so that the embedded one is not used."""
    return bool(settings.temporal.get("TEMPORAL_ADDRESS") or settings.temporal.get("TEMPORAL_PROFILE"))
