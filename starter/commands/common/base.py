"""What every command has: `--quiet` and `--debug`, wherever they stand."""

from __future__ import annotations

from itertools import pairwise
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
    quiet, debug = "Print only results and errors.", "Print the whole traceback of an error."
    return [
        click.Option(["--quiet", "-q"], is_flag=True, expose_value=False, callback=_set("quiet"), help=quiet),
        click.Option(["--debug"], is_flag=True, expose_value=False, callback=_set("debug"), help=debug),
    ]


class _ChecksValues(click.Command):
    """Notices an option whose value is missing before another option: click would take that for the value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [one for one in self.params if isinstance(one, click.Option)]
        known = {name for one in options for name in (*one.opts, *one.secondary_opts)}
        with_value = {name for one in options if not one.is_flag and not one.count for name in one.opts}
        for name, following in pairwise(args):
            if name == "--":
                break
            if name in with_value and following.partition("=")[0] in known:
                problem = f"{name} has no value before {following}; if it comes from a variable, the variable is empty"
                raise click.UsageError(problem, ctx)
        return super().parse_args(ctx, args)


class Command(_ChecksValues):
    """A command that takes them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += verbosity_options()


class Group(_ChecksValues, click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.invoke_without_command:  # then it is a command too
            self.params += verbosity_options()
