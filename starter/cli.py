"""The command `datamon`. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from datamon import __version__
from datamon.errors import DatamonError

_COMMANDS = {
    "up": ("stack:up", "Start the embedded Temporal server and a worker with local Spark."),
    "down": ("stack:down", "Stop what `datamon up` started."),
    "status": ("stack:status", "Show what this command would talk to, and whether it answers."),
    "worker": ("stack:worker", "Run a worker for a Temporal server elsewhere."),
    "repo": ("repo:repo", "Make and list repos."),
    "diamond": ("diamond:diamond", "Make one bundle out of many uploads."),
    "bundle": ("bundle:bundle", "List, show and download bundles."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"starter.commands.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="datamon")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error.")
def datamon(**_: Any) -> None:
    r"""Many machines upload, one immutable bundle comes out.

    \b
    datamon up --detach
    datamon repo create --repo weather
    diamond=$(datamon diamond initialize --repo weather)
    datamon diamond add --repo weather --diamond $diamond --path /data/part1
    datamon diamond commit --repo weather --diamond $diamond --message March
    """


def main() -> None:
    """Run the command. A user error is one sentence on stderr and an exit code."""
    debug = "--debug" in sys.argv[1:2]
    try:
        code = datamon.main(prog_name="datamon", standalone_mode=False)
    except DatamonError as error:
        if debug:
            raise
        _fail(str(error), error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(sentence: str, code: int) -> None:
    click.echo(f"datamon: {sentence}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
