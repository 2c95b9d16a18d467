"""What every command has: `--quiet` and `--debug`, wherever they stand."""

from __future__ import annotations

from typing import Any

import click

from datamon.starter.output import verbosity


def _set(name: str) -> Any:
    def callback(_ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
        if value:
            setattr(verbosity, name, True)

    return callback


def verbosity_options() -> list[click.Parameter]:
    """Options that are for any command."""
    quiet, debug = "Say nothing but results and errors.", "Show the whole traceback of an error."
    return [
        click.Option(["--quiet", "-q"], is_flag=True, expose_value=False, callback=_set("quiet"), help=quiet),
        click.Option(["--debug"], is_flag=True, expose_value=False, callback=_set("debug"), help=debug),
    ]


class Command(click.Command):
    """A command that takes them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += verbosity_options()


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.invoke_without_command:  # then it is a command too
            self.params += verbosity_options()
