"""The command `datamon`. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import click

from datamon.core.errors import DatamonError
from datamon.core.text import os_reason
from datamon.settings import configuration
from datamon.starter.advice import sentence
from datamon.starter.commands import registry
from datamon.starter.commands.common.base import Group, verbosity_options
from datamon.starter.output import Command, uses_colours, verbosity
from datamon.version import __version__

gc.set_threshold(100_000, 20, 20)  # importing makes many objects and no garbage: a command starts 0.1 s sooner


class _Lazy(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registry.registered())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return registry.load(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, (_, command) in registry.registered().items()])


def _setting_options(command: Command) -> Command:
    """A flag for every setting that is no secret: what is on a command line, everybody on the machine can read."""

    def callback(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            configuration.set_flag(str(parameter.name).upper(), value)

    file = configuration.Setting(
        "config", "DATAMON_CONFIG", "", "A datamon.toml to use instead of those that datamon finds itself."
    )
    for setting in reversed([file, *(setting for setting in configuration.SETTINGS if not setting.secret)]):
        option = click.option(
            setting.flag,
            setting.variable.lower(),
            callback=callback,
            expose_value=False,
            help=setting.about,
            metavar="VALUE",
        )
        command = option(command)
    return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="datamon")
@_setting_options
def datamon() -> None:
    """Many machines upload, one immutable bundle comes out.

    \b
    datamon up --detach
    datamon repo create --repo weather
    diamond=$(datamon diamond initialize --repo weather)
    datamon diamond add --repo weather --diamond $diamond --path /data/part1
    datamon diamond commit --repo weather --diamond $diamond --message March
    """  # noqa: D301 - the backspace keeps click from joining the lines


datamon.params += verbosity_options()


def main() -> NoReturn:
    """Run the command, and end the process without taking the interpreter apart.

    Temporal's client has threads that may want the interpreter at that very moment, which then aborts: one call
    in five did so on a busy machine. All we hold is released by now; what was printed is flushed here.
    """
    code = _run()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:  # the reader of our output has seen enough
            pass
        except OSError:
            code = code or 1
    os._exit(code)


def _run() -> int:
    """The exit code. A user error is one sentence on stderr."""
    try:
        code = datamon.main(prog_name="datamon", standalone_mode=False)
    except DatamonError as error:
        if verbosity.debug:
            traceback.print_exc()
        return _fail(sentence(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        return _fail(_usage(error), error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (BrokenPipeError, SystemExit) as error:
        return _ended(error)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        subject = f"{error.filename}: " if error.filename else ""
        return _fail(f"{subject}{os_reason(error)}", 1)
    except Exception as error:  # noqa: BLE001 - a bug of ours; the exit code must say so all the same
        traceback.print_exc()
        return _fail(f"this is a bug: {error!r}", 1)
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError) -> str:
    problem = error.format_message().rstrip(".")
    if problem.startswith("Got unexpected extra argument"):  # a message of several words, or a glob of the shell
        problem += "; a value with spaces or globs must be quoted"
    return problem + (f"; see `{error.ctx.command_path} --help`" if error.ctx else "")


def _fail(text: str, code: int) -> int:
    prefix = click.style("datamon:", fg="red", bold=True)
    with suppress(BrokenPipeError):
        click.echo(f"{prefix} {text}", err=True, color=uses_colours(sys.stderr))
    return code


def _ended(error: BrokenPipeError | SystemExit) -> int:
    """A reader of our output that has seen enough is no failure, though click ends with 1 then."""
    code = error.code if isinstance(error, SystemExit) else 0
    return code if isinstance(code, int) and code != 1 else 0


if __name__ == "__main__":
    main()
