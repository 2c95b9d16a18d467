"""Writes docs/reference/ from the code. `make docs` runs it.

reference.md   every command, every setting, every descriptor
api.md         every public class and method, from its docstring
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from datamon.bundles.model import Bundle, Deleted, DiamondOrigin, Jump, Label, LeftOut, Repo, TakenSplit
from datamon.core import errors
from datamon.diamonds.model import Diamond, IdReservation, Split
from datamon.lists.reference import ListRef
from datamon.settings import configuration
from datamon.sources.skipped import Skipped
from datamon.starter.attempts import Attempt
from datamon.starter.cli import datamon
from datamon.starter.client import (
    Bundles,
    Datamon,
    Diamonds,
    Housekeeping,
    Labels,
    Repos,
    SplitOptions,
)
from datamon.starter.client import Diamond as ClientDiamond
from datamon.starter.client import Split as ClientSplit
from datamon.stores.identity import StoreIdentity
from datamon.workflows.diamonds.messages import (
    CommitAnswer,
    DiamondStatus,
    FailedSplit,
    SplitReport,
    SplitStatus,
)

FOLDER = Path(__file__).parent / "reference"
INTERNAL = ("explained", "require_same_store", "split_status")
CLASSES = (Datamon, Repos, Diamonds, ClientDiamond, ClientSplit, Bundles, Labels, Housekeeping)
VALUES = (SplitOptions, CommitAnswer, SplitReport, Attempt, DiamondStatus, FailedSplit, SplitStatus)
DESCRIPTORS = (StoreIdentity, Repo, Bundle, Label, Diamond, Split, IdReservation)
PARTS = (DiamondOrigin, TakenSplit, LeftOut, Jump, Deleted, Skipped, ListRef)
EVERYWHERE = ("--quiet", "--debug", "--help")


def reference() -> str:
    """The whole page."""
    return "\n".join([*_introduction(), *_commands(), *_settings(), *_exit_codes(), *_descriptors()]) + "\n"


def _introduction() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "`make docs` writes this page from the code, and a test compares the two. [The guide](guide.md) explains what the"
    yield "commands mean; [Formats](../internals/formats.md) describes the store."
    yield ""


def _commands() -> Iterator[str]:
    yield "## Commands"
    yield ""
    yield "Every command takes `--quiet` (print only results and errors), `--debug` (print the whole traceback of an error)"
    yield "and `--help`. Settings stand before the command: `datamon --store /data/store repo list`."
    for path, command in walk(datamon, ("datamon",)):
        yield ""
        yield f"### {' '.join(path)}"
        yield ""
        about, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
        yield about.strip()
        if example:
            yield ""
            yield f"    {example.strip()}"
        options = [p for p in command.params if isinstance(p, click.Option) and p.opts[0] not in EVERYWHERE]
        if options or any(isinstance(p, click.Argument) for p in command.params):
            yield ""
            yield "| | |"
            yield "| --- | --- |"
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                yield f"| `{parameter.make_metavar(click.Context(command))}` | |"
        for option in options:
            yield f"| `{_usage(option, command)}` | {_cell(option.help or '')}{_default(option)} |"
    yield ""


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            if found is not None:
                yield from walk(found, (*path, name))
    if not isinstance(command, click.Group) or (command.invoke_without_command and len(path) > 1):
        yield path, command


def _usage(option: click.Option, command: click.Command) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    kind = option.type
    value = "\\|".join(kind.choices) if isinstance(kind, click.Choice) else option.make_metavar(click.Context(command))
    return f"{names} {value}"


def _default(option: click.Option) -> str:
    required = " Required." if option.required else ""
    told = option.show_default and option.default is not None
    return required + (f" Default: `{option.default}`." if told else "")


def _settings() -> Iterator[str]:
    yield "## Settings"
    yield ""
    yield "The first of these that has a value decides: the flag, the variable, `datamon.toml` (the nearest one at or above the"
    yield "current folder, or the one that `--config` or `DATAMON_CONFIG` names), `datamon.toml` in `~/.config/datamon`, the"
    yield "default. A name with a dot belongs to a table: `[temporal]`. `datamon config show` prints each value and its source."
    yield ""
    yield "| in datamon.toml | flag | variable | default | |"
    yield "| --- | --- | --- | --- | --- |"
    for setting in configuration.SETTINGS:
        flag = "" if setting.secret else f"`{setting.flag}`"
        default = _cell(setting.default)
        yield f"| `{setting.name}` | {flag} | `{setting.variable}` | {default} | {_cell(setting.about)} |"
    yield ""
    yield "Temporal's other variables (`TEMPORAL_TLS_…`, `TEMPORAL_CONFIG_FILE`) and its `temporal.toml` count as they do for"
    yield "Temporal's own command. Credentials and endpoint of S3 are boto3's: `AWS_PROFILE`, `AWS_ENDPOINT_URL`, and so on."
    yield ""


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | errors |"
    yield "| --- | --- |"
    yield "| 0 | none |"
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.DatamonError)]
    for code in sorted({kind.exit_code for kind in kinds}):
        told = [kind for kind in kinds if kind.exit_code == code and kind is not errors.DatamonError]
        yield f"| {code} | {', '.join(f'`{kind.__name__}`' for kind in told)} |"
    yield "| 130 | interrupted |"
    yield ""
    yield "The classes are those of `datamon.core.errors`, which the client raises."
    yield ""


def _descriptors() -> Iterator[str]:
    yield "## Descriptors"
    yield ""
    yield "The fields of the YAML in the store, and of what `--format json` prints of one thing."
    for kind in DESCRIPTORS:
        yield from _fields(kind)
    yield ""
    yield "## Parts of descriptors"
    for kind in PARTS:
        yield from _fields(kind)


def _fields(kind: type) -> Iterator[str]:
    yield ""
    yield f"### {kind.__name__}"
    yield ""
    yield str(inspect.getdoc(kind))
    yield ""
    yield "| field | type | |"
    yield "| --- | --- | --- |"
    remarks = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE))
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        yield f'| `{config.tag_field}` | `"{config.tag}"` | which kind of origin this is |'
        names = [field.name for field in msgspec.structs.fields(kind)]
    else:
        names = [field.name for field in dataclasses.fields(kind)]
    for name in names:
        yield f"| `{name}` | `{_cell(kind.__annotations__[name])}` | {_cell(remarks.get(name, ''))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def api() -> str:
    """The whole page about the client."""
    return "\n".join(_api()) + "\n"


def _api() -> Iterator[str]:
    yield "# API"
    yield ""
    yield "`make docs` writes this page from the docstrings. `datamon.Datamon.connect()` gives a `Datamon` for asyncio;"
    yield "`with datamon.connect() as dm` gives one with the same parts and methods for programs without an event loop, which"
    yield "wait for their answers instead of being awaited. [Use datamon from a program](../how-to/programs.md) has examples."
    for kind in CLASSES:
        yield ""
        yield f"## {kind.__name__}"
        yield ""
        yield str(inspect.getdoc(kind))
        for name, member in vars(kind).items():
            method = member.__func__ if isinstance(member, classmethod) else member
            if name.startswith("_") or not inspect.isfunction(method) or name in INTERNAL:
                continue
            parameters = [
                one for one in inspect.signature(method).parameters.values() if one.name not in ("self", "cls")
            ]
            signature = inspect.Signature(parameters, return_annotation=inspect.signature(method).return_annotation)
            yield ""
            shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature))
            yield f"**`{name}{shown}`**  "
            yield str(inspect.getdoc(method))
    yield ""
    yield "# Values"
    yield ""
    yield "What is given to these methods, and what they give."
    for kind in VALUES:
        yield from _fields(kind)


PAGES = {FOLDER / "reference.md": reference, FOLDER / "api.md": api}


if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page())
        sys.stdout.write(f"wrote {path}\n")
