"""`datamon config` and `datamon completion`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from datamon.settings import configuration
from datamon.settings.settings import Settings
from datamon.settings.stack import running_stack
from datamon.starter.commands.common.base import Command, Group
from datamon.starter.output import format_option, print_listing

_AWS = ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_AWS_SECRETS = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
HIDDEN = "(hidden)"


@click.group(cls=Group)
def config() -> None:
    """Show all settings, and where they come from."""


@dataclass(frozen=True)
class Shown:
    """A setting for people: what it is, where that was set, and which variable sets it."""

    name: str
    value: str
    source: str
    variable: str


@config.command()
@format_option
def show(format: str) -> None:
    """Show every setting, with where it comes from. Secrets are hidden.

    Example: datamon config show --format json
    """
    rows = [*_own(Settings.load()), *_of_temporal(Settings.load()), *_of_aws()]
    print_listing(map(asdict, rows), format, ("SETTING", "VALUE", "FROM", "VARIABLE"), lambda row: (*row.values(),))


def _own(settings: Settings) -> Iterator[Shown]:
    held = asdict(settings)
    stack = running_stack(settings.home)
    for resolved in configuration.resolve_all():
        name = resolved.setting.name
        if name in held:
            value = str(settings.contributor) if name == "contributor" else str(held[name] or "")
            from_stack = name == "store" and resolved.value is None and stack is not None
            source = f"the stack of {settings.home}" if from_stack else resolved.source
            shown = HIDDEN if resolved.setting.secret and value else _without_password(value)
            yield Shown(name, shown, source, resolved.setting.variable)


def _of_temporal(settings: Settings) -> Iterator[Shown]:
    """What the command would connect with: said to us, by a profile of Temporal's own, or by the running stack."""
    from datamon.worker.connection.address import connect_options, has_explicit_server, temporal_profile

    options, stack = connect_options(settings), running_stack(settings.home)
    embedded = stack is not None and not has_explicit_server(settings)
    profile = temporal_profile(settings)
    settable = {resolved.setting.name: resolved for resolved in configuration.resolve_all()}
    values = {
        "address": options["target_host"],
        "namespace": options.get("namespace", "default"),
        "profile": settings.temporal.get("TEMPORAL_PROFILE", "default"),
        "api_key": HIDDEN if options.get("api_key") else "",
        "tls": "on" if options.get("tls") else "off",
    }
    for name, value in values.items():
        resolved = settable.get(f"temporal.{name}")
        if embedded:
            source = f"the stack of {settings.home}"
        elif resolved is not None and resolved.value is not None:
            source = resolved.source
        elif any(variable.startswith(f"TEMPORAL_{name.upper()}") for variable in settings.temporal):
            source = "environment"
        else:
            source = profile.source if name in profile.gives else "default"
        yield Shown(f"temporal.{name}", value, source, f"TEMPORAL_{name.upper()}")


def _of_aws() -> Iterator[Shown]:
    """Credentials and endpoint are boto3's own affair; this is what its variables say."""
    for variable in _AWS:
        value = os.environ.get(variable)
        if value:
            shown = HIDDEN if variable in _AWS_SECRETS else _without_password(value)
            yield Shown(variable.lower().replace("_", ".", 1), shown, "environment", variable)


def _without_password(url: str) -> str:
    scheme, colon, rest = url.partition("://")
    return f"{scheme}://{HIDDEN}@{rest.rpartition('@')[2]}" if colon and "@" in rest.partition("/")[0] else url


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes a shell complete commands, options, repos, diamonds and labels.

    Example: eval "$(datamon completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "datamon", "_DATAMON_COMPLETE").source())
