"""`datamon diamond split`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from datamon.content.entry import Entry
from datamon.core.errors import BadUsage
from datamon.core.ids import DiamondId, RepoName, SplitId, new_id
from datamon.core.names import with_prefix
from datamon.diamonds.catalog import get_diamond, get_split, list_splits, skipped_by, split_lists
from datamon.diamonds.model import Diamond, Split, SplitState
from datamon.settings.settings import Settings
from datamon.sources.source import is_s3_url
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.connected import run_connected
from datamon.starter.commands.common.files import file_fields, named
from datamon.starter.commands.common.interrupts import interrupts, on_interrupt
from datamon.starter.commands.common.options import (
    diamond_option,
    repo_option,
    request_option,
    require,
    source_options,
    split_option,
    state_option,
)
from datamon.starter.commands.common.sources import check_source, selected, serving_source
from datamon.starter.commands.common.split_progress import summarize_split, wait_for_split
from datamon.starter.commands.diamond.split_listing import all_splits, connect_if, progress_note, with_progress
from datamon.starter.output import (
    Command,
    amount,
    format_option,
    one_format_option,
    print_listing,
    print_one,
    print_result,
    ratio,
    result_format_option,
    seconds,
)

if TYPE_CHECKING:
    from datamon.starter.client import Datamon


@click.group(cls=Group)
def split() -> None:
    """Add and list the splits of a diamond: one upload each."""


def add_options(command: Command) -> Command:
    """What `add` takes, under either of its names."""
    for option in reversed(
        [
            repo_option(),
            diamond_option(),
            source_options,
            split_option(about="Run this split again instead of adding a new one."),
            click.option(
                "--create", is_flag=True, help="With --split: add a new split under this id if there is none yet."
            ),
            click.option("--split-tag", default=None, help="A note on the split. By default the host name."),
            request_option,
            click.option("--detach", is_flag=True, help="Return once the diamond has accepted the split."),
            result_format_option,
        ]
    ):
        command = option(command)
    return command


@split.command(name="add")
@add_options
def split_add(**options: Any) -> None:
    """The same as `datamon diamond add`.

    Example: datamon diamond split add --repo weather --diamond $diamond --path /data/part1
    """
    add_split(**options)


def add_split(
    repo: RepoName,
    diamond: DiamondId,
    path: str,
    split: SplitId | None,
    split_tag: str | None,
    request: str | None,
    format: str,
    *,
    create: bool,
    detach: bool,
    **source: Any,
) -> None:
    """Upload a folder or file as a split, and print the split's id."""
    if create and split is None:
        raise BadUsage("--create needs --split: it says that the id given there may be new")
    check_source(path)

    async def run(datamon: Datamon) -> None:
        from datamon.starter.client import SplitOptions

        chosen = split or (None if request else new_id())
        is_new = create or split is None
        options = SplitOptions(id=chosen, create=is_new, tag=split_tag, request=request, **selected(source))
        async with serving_source(datamon, path, detach=detach) as ours:
            may = f"split {chosen or ''} may have been accepted; `datamon diamond split list` shows it if so"
            with on_interrupt(may.replace("  ", " ")):
                added = await datamon.diamonds.get(repo, diamond).add(path, options)
            with interrupts() as pressed:
                print_result(added.id, {"repo": repo, "diamond": diamond, "split": added.id}, format)
                if not detach:
                    summarize_split(await wait_for_split(added, pressed, ours=ours), path)

    run_connected(run)


@split.group(name="list", invoke_without_command=True)
@repo_option(required=False)
@diamond_option(required=False)
@state_option(SplitState)
@click.option("--watch", is_flag=True, help="Show a bar for each split, until all have ended.")
@format_option
@click.pass_context
def list_group(
    ctx: click.Context,
    repo: RepoName | None,
    diamond: DiamondId | None,
    state: str | None,
    format: str,
    *,
    watch: bool,
) -> None:
    """List the splits of a diamond: state, timings, size, and why one failed; or with `files`, their files.

    Example: datamon diamond split list --repo weather --diamond $diamond --state failed
    """
    if ctx.invoked_subcommand is not None:
        return
    require(ctx, "repo", "diamond")
    assert repo is not None
    assert diamond is not None
    if watch:
        if format != "table":
            raise BadUsage(f"--watch draws a table, so it cannot be combined with --format {format}")
        _watch(repo, diamond, state)
        return
    described = get_diamond(Settings.load().context(), repo, diamond)
    print_listing(
        asyncio.run(_with_progress(described, state)),
        format,
        (
            "SPLIT",
            "STATE",
            "TAG",
            "STARTED",
            "TOOK",
            "RATE",
            "TRIES",
            "FILES",
            "BYTES",
            "STORED",
            "RATIO",
            "SOURCE",
            "NOTE",
        ),
        lambda s: (
            s["id"],
            s["state"],
            s["tag"],
            seconds(s["started"]),
            f"{s['seconds']:.1f} s" if s["seconds"] is not None else "",
            f"{amount(s['rate'])}/s" if s["rate"] is not None else "",
            s["attempts"],
            s["files"],
            s["bytes"],
            s["stored"],
            ratio(s["bytes"], s["stored"]),
            s["source"] if is_s3_url(s["source"]) else f"{s['host']}:{s['source']}",
            s["reason"] or progress_note(s),
        ),
    )


def _watch(repo: RepoName, diamond: DiamondId, state: str | None) -> None:
    async def run(datamon: Datamon) -> None:
        from datamon.starter.commands.diamond.split_watch import watch

        await watch(datamon, repo, diamond, state)

    run_connected(run)


async def _with_progress(diamond: Diamond, state: str | None) -> list[dict[str, Any]]:
    async with connect_if(not diamond.state.ended) as datamon:
        stored = await all_splits(datamon, diamond)
        return await with_progress(datamon, [split for split in stored if state in (None, split.state)])


@list_group.command(name="files")
@repo_option()
@diamond_option()
@split_option(about="Only this split. By default all that have recorded their files.")
@click.option("--prefix", default="", help="Only names that start with this.")
@format_option
def list_files(repo: RepoName, diamond: DiamondId, split: SplitId | None, prefix: str, format: str) -> None:
    """List the files of one or all splits, by split and name, before they are in any bundle.

    Example: datamon diamond split list files --repo weather --diamond $diamond --split $split
    """
    context = Settings.load().context()
    get_diamond(context, repo, diamond)
    one = [get_split(context, repo, diamond, split)] if split is not None else None
    stored = one or list_splits(context, repo, diamond)
    files = (
        {"split": s.id, "name": e.shown, **file_fields(e), "timestamp": e.timestamp}
        for s in stored
        for e in split_lists(context, s).entries(with_prefix(prefix))
        if isinstance(e, Entry)
    )
    print_listing(
        files,
        format,
        ("SPLIT", "NAME", "SIZE", "HASH"),
        lambda file: (file["split"], named(file), file["size"], file["hash"]),
    )


@list_group.command(name="skipped")
@repo_option()
@diamond_option()
@split_option(about="Only this split. By default all that have recorded what they skipped.")
@format_option
def list_skipped(repo: RepoName, diamond: DiamondId, split: SplitId | None, format: str) -> None:
    """List what splits that were added with --skip-on-error left out, and why.

    Example: datamon diamond split list skipped --repo weather --diamond $diamond
    """
    context = Settings.load().context()
    get_diamond(context, repo, diamond)
    stored = [get_split(context, repo, diamond, split)] if split else list_splits(context, repo, diamond)
    print_listing(
        ({"split": s.id, **msgspec.to_builtins(one)} for s in stored if s.skipped for one in skipped_by(context, s)),
        format,
        ("SPLIT", "NAME", "REASON"),
        lambda one: (one["split"], one["name"], one["reason"]),
    )


@split.command(name="get")
@repo_option()
@diamond_option()
@split_option(required=True)
@one_format_option
def get_command(repo: RepoName, diamond: DiamondId, split: SplitId, format: str) -> None:
    """Show one split, and its progress while it runs.

    Example: datamon diamond split get --repo weather --diamond $diamond --split $split
    """
    context = Settings.load().context()
    get_diamond(context, repo, diamond)
    print_one(asyncio.run(_progress_of(get_split(context, repo, diamond, split))), format)


async def _progress_of(split: Split) -> dict[str, Any]:
    async with connect_if(split.state is SplitState.RUNNING) as datamon:
        [shown] = await with_progress(datamon, [split])
        return shown
