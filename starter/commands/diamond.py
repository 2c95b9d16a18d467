"""`datamon diamond`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from typing import Any, BinaryIO

import click

from datamon import catalog
from datamon.errors import BadUsage, counted
from datamon.ids import DiamondId, RepoName, SplitId, new_id
from datamon.model import ConflictMode, Order, SplitState
from datamon.settings import Settings
from datamon.sources import is_remote
from starter.commands.adding import (
    check_source,
    left_behind,
    on_interrupt,
    pace,
    serving_source,
    tell_split,
    watched,
    with_progress,
)
from starter.commands.options import diamond_option, repo_option, source_options, split_option
from starter.output import Command, amount, format_option, one_format_option, print_listing, print_one, say, seconds


@click.group()
def diamond() -> None:
    """Make one bundle out of many uploads."""


@diamond.group()
def split() -> None:
    """Add and list the splits of a diamond: one upload each."""


@diamond.command()
@repo_option()
@diamond_option(required=False, about="An id of your own, used only once. By default a new KSUID.")
@click.option("--tag", default="", help="A note to find the diamond by.")
def initialize(repo: RepoName, diamond: DiamondId | None, tag: str) -> None:
    """Open a diamond and print its id.

    Example: diamond=$(datamon diamond initialize --repo weather)
    """

    async def run() -> None:
        from starter.client import Datamon

        async with await Datamon.connect() as datamon:
            click.echo((await datamon.diamonds.initialize(repo, diamond, tag)).id)

    asyncio.run(run())


def _add_options(command: Command) -> Command:
    for option in reversed(
        [
            repo_option(),
            diamond_option(),
            source_options,
            split_option(about="Run this split again instead of adding a new one."),
            click.option("--create", is_flag=True, help="With --split: the id is new, and mine to choose."),
            click.option("--split-tag", default=None, help="A note on the split. By default the host name."),
            click.option("--detach", is_flag=True, help="Return once the diamond has accepted the split."),
        ]
    ):
        command = option(command)
    return command


@diamond.command()
@_add_options
def add(**options: Any) -> None:
    """Upload a folder or file as a split, and print the split's id.

    The id is printed as soon as the diamond has accepted the split, before the upload ends.

    Example: datamon diamond add --repo weather --diamond $diamond --path /data/part1
    """
    _add(**options)


@split.command(name="add")
@_add_options
def split_add(**options: Any) -> None:
    """The same as `datamon diamond add`.

    Example: datamon diamond split add --repo weather --diamond $diamond --path /data/part1
    """
    _add(**options)


def _add(
    repo: RepoName,
    diamond: DiamondId,
    path: str,
    files: BinaryIO | None,
    name_filter: str,
    split: SplitId | None,
    split_tag: str | None,
    *,
    create: bool,
    skip_on_error: bool,
    detach: bool,
) -> None:
    if create and split is None:
        raise BadUsage("--create goes with --split: it says that the id given there is new")
    check_source(path)

    async def run() -> None:
        from starter.client import Datamon, SplitOptions

        chosen = split or new_id()
        names = files.read() if files is not None else None
        options = SplitOptions(chosen, create or split is None, split_tag, skip_on_error, names, name_filter)
        async with await Datamon.connect() as datamon, serving_source(datamon, path, detach=detach) as ours:
            with on_interrupt(f"split {chosen} may have been accepted; `datamon diamond split list` shows it if so"):
                added = await datamon.diamonds.get(repo, diamond).add(path, options)
            click.echo(added.id)
            sys.stdout.flush()  # a restarted container needs it even if we are killed now
            if not detach:
                with on_interrupt(left_behind(added.id, ours=ours)):
                    tell_split(await watched(added), path)

    asyncio.run(run())


@split.command(name="list")
@repo_option()
@diamond_option()
@format_option
def list_splits(repo: RepoName, diamond: DiamondId, format: str) -> None:
    """List the splits of a diamond: state, timings, size, and why one failed.

    Example: datamon diamond split list --repo weather --diamond $diamond
    """
    splits = list(catalog.splits(Settings.load().context(), repo, diamond))
    print_listing(
        with_progress(splits),
        format,
        ("SPLIT", "STATE", "TAG", "STARTED", "ENDED", "FILES", "BYTES", "STORED", "SOURCE", "NOTE"),
        lambda s: (
            s["id"],
            s["state"],
            s["tag"],
            seconds(s["started"]),
            seconds(s["ended"]),
            s["files"],
            s["bytes"],
            s["stored"],
            s["source"] if is_remote(s["source"]) else f"{s['host']}:{s['source']}",
            s["reason"] or pace(s["progress"]),
        ),
    )


@split.command(name="get")
@repo_option()
@diamond_option()
@split_option(required=True)
@one_format_option
def get_split(repo: RepoName, diamond: DiamondId, split: SplitId, format: str) -> None:
    """Show one split, and while it runs, how far it is.

    Example: datamon diamond split get --repo weather --diamond $diamond --split $split
    """
    context = Settings.load().context()
    catalog.get_diamond(context, repo, diamond)
    [found] = with_progress([catalog.get_split(context, repo, diamond, split)])
    print_one(found, format)


@diamond.command(name="list")
@repo_option()
@format_option
def list_diamonds(repo: RepoName, format: str) -> None:
    """List the diamonds of a repo.

    Example: datamon diamond list --repo weather
    """
    print_listing(
        catalog.diamonds(Settings.load().context(), repo),
        format,
        ("DIAMOND", "STATE", "TAG", "CREATED", "UPDATED", "BUNDLE"),
        lambda d: (d.id, d.state, d.tag, seconds(d.created), seconds(d.updated), d.bundle),
    )


@diamond.command()
@repo_option()
@diamond_option()
@one_format_option
def get(repo: RepoName, diamond: DiamondId, format: str) -> None:
    """Show one diamond, with its splits by state.

    Example: datamon diamond get --repo weather --diamond $diamond --format json
    """
    context = Settings.load().context()
    found = catalog.get_diamond(context, repo, diamond)
    if not found.state.ended:  # its own counts are of its last change of state
        states = Counter(split.state for split in catalog.splits(context, repo, diamond))
        found = replace(found, splits={state: states[state] for state in SplitState})
    print_one(found, format)


_MODES = {
    ConflictMode.KEEP: "Keep versions that lost under .conflicts (the default).",
    ConflictMode.CHECKPOINTS: "Keep versions that lost under .checkpoints.",
    ConflictMode.IGNORE: "Drop versions that lost.",
    ConflictMode.FORBID: "Refuse to commit if versions differ.",
}


def _mode_options(command: Command) -> Command:
    for mode, about in reversed(_MODES.items()):
        command = click.option(f"--{mode}", mode.name.lower(), is_flag=True, help=about)(command)
    return command


@diamond.command()
@repo_option()
@diamond_option()
@click.option("--message", required=True, help="What this version is, in a sentence.")
@_mode_options
@click.option(
    "--order",
    type=click.Choice([order.value for order in Order]),
    default=Order.UPLOADED.value,
    show_default=True,
    help="What makes a version later.",
)
@click.option("--wait", is_flag=True, help="Wait for running splits to end first.")
@click.option("--splits", type=click.IntRange(1), default=None, help="Refuse to commit fewer done splits than this.")
@format_option
def commit(
    repo: RepoName,
    diamond: DiamondId,
    message: str,
    order: str,
    splits: int | None,
    format: str,
    *,
    wait: bool,
    **modes: bool,
) -> None:
    """Make one bundle of all done splits, and print its id.

    Splits that are still running are left out and stopped, unless --wait is given. With --wait and --splits N
    the commit waits until N splits have been added and all have ended.

    Example: datamon diamond commit --repo weather --diamond $diamond --message March --wait --splits 3
    """
    chosen = [mode for mode in ConflictMode if modes[mode.name.lower()]]
    if len(chosen) > 1:
        raise BadUsage(f"--{chosen[0]} and --{chosen[1]} exclude each other")

    async def run() -> None:
        from starter.client import Datamon

        async with await Datamon.connect() as datamon:
            with on_interrupt("a commit that was accepted goes on; `datamon diamond get` shows how it ends"):
                answer = await datamon.diamonds.get(repo, diamond).commit(
                    message, chosen[0] if chosen else ConflictMode.KEEP, Order(order), wait=wait, splits=splits
                )
        if format == "table":
            click.echo(answer.bundle)
        else:
            print_one(answer, format)
        kept = "checkpoint" if chosen == [ConflictMode.CHECKPOINTS] else "conflict"
        among = f"{counted(answer.conflicts, kept)} among them" if answer.conflicts else f"no {kept}s"
        say(f"bundle {answer.bundle}: {counted(answer.files, 'file')}, {amount(answer.bytes)}, {among}")
        for left in answer.left_out:
            say(f"left out split {left.id}: {left.reason}")

    asyncio.run(run())


@diamond.command()
@repo_option()
@diamond_option()
def cancel(repo: RepoName, diamond: DiamondId) -> None:
    """Stop all splits of a diamond and close it without a bundle.

    Example: datamon diamond cancel --repo weather --diamond $diamond
    """

    async def run() -> None:
        from starter.client import Datamon

        async with await Datamon.connect() as datamon:
            await datamon.diamonds.get(repo, diamond).cancel()
        say(f"diamond {diamond} is canceled")

    asyncio.run(run())
