"""`datamon diamond`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from datamon.core.errors import BadUsage
from datamon.core.ids import DiamondId, LabelName, RepoName
from datamon.core.instants import instant
from datamon.diamonds.catalog import get_diamond, list_diamonds, list_splits
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.diamonds.report import report_on
from datamon.merge.modes import ConflictMode, Order
from datamon.settings.settings import Settings
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.commit_progress import show_preview, summarize_bundle, wait_for_commit
from datamon.starter.commands.common.connected import run_connected
from datamon.starter.commands.common.interrupts import on_interrupt
from datamon.starter.commands.common.options import (
    age_option,
    diamond_option,
    has_metadata,
    label_option,
    meta_filter_option,
    meta_option,
    repo_option,
    request_option,
    require,
    state_option,
)
from datamon.starter.commands.diamond.split import add_options, add_split, split
from datamon.starter.commands.diamond.split_listing import connect_if, shown_retry, with_progress
from datamon.starter.output import (
    Command,
    format_option,
    one_format_option,
    print_listing,
    print_one,
    print_result,
    result_format_option,
    say,
    seconds,
)

if TYPE_CHECKING:
    from datamon.starter.client import Datamon
    from datamon.workflows.diamonds.messages import CommitAnswer, DiamondStatus


@click.group(cls=Group)
def diamond() -> None:
    """Make one bundle out of many uploads."""


diamond.add_command(split)


@diamond.command()
@repo_option()
@diamond_option(required=False, about="An id of your own, used only once. By default a new KSUID.")
@click.option("--tag", default="", help="A note to find the diamond by.")
@meta_option("A fact of your own, kept with the diamond and in its bundle; may be repeated.")
@request_option
@result_format_option
def initialize(
    repo: RepoName,
    diamond: DiamondId | None,
    tag: str,
    meta: tuple[tuple[str, str], ...],
    request: str | None,
    format: str,
) -> None:
    """Open a diamond and print its id.

    Example: diamond=$(datamon diamond initialize --repo weather)
    """

    async def run(datamon: Datamon) -> None:
        opened = await datamon.diamonds.initialize(repo, diamond, tag, metadata=dict(meta), request=request)
        print_result(opened.id, await opened.described(), format)

    run_connected(run)


@diamond.command()
@add_options
def add(**options: Any) -> None:
    """Upload a folder or file as a split, and print the split's id.

    The id is printed as soon as the diamond has accepted the split, before the upload ends.

    Example: datamon diamond add --repo weather --diamond $diamond --path /data/part1
    """
    add_split(**options)


@diamond.command(name="list")
@repo_option()
@state_option(DiamondState)
@meta_filter_option
@format_option
def list_command(repo: RepoName, state: str | None, meta: tuple[tuple[str, str], ...], format: str) -> None:
    """List the diamonds of a repo. A diamond that has ended is listed until housekeeping removes it.

    Example: datamon diamond list --repo weather --state initialized
    """
    stored = list_diamonds(Settings.load().context(), repo)
    print_listing(
        (one for one in stored if state in (None, one.state) and has_metadata(one.metadata, meta)),
        format,
        ("DIAMOND", "STATE", "TAG", "CREATED", "UPDATED", "BUNDLE"),
        lambda d: (d.id, d.state, d.tag, seconds(d.created), seconds(d.updated), d.bundle),
    )


@diamond.command()
@repo_option()
@diamond_option()
@one_format_option
def get(repo: RepoName, diamond: DiamondId, format: str) -> None:
    """Show one diamond, with the number of its splits in each state and the failed attempts that are being retried.

    Example: datamon diamond get --repo weather --diamond $diamond --format json
    """
    context = Settings.load().context()
    stored = get_diamond(context, repo, diamond)
    if stored.state.ended:
        print_one(stored, format)
        return
    splits = list(list_splits(context, repo, diamond))
    states = Counter(split.state for split in splits)  # the diamond's own counts are of its last change of state
    current = replace(stored, splits={state: states[state] for state in SplitState})
    print_one(msgspec.to_builtins(current) | {"retrying": asyncio.run(_retrying(current, splits))}, format)


async def _retrying(diamond: Diamond, splits: Sequence[Split]) -> list[dict[str, Any]]:
    """What the diamond and its running splits have to try again."""
    async with connect_if(needed=True) as datamon:
        own = await datamon.diamonds.get(diamond.repo, diamond.id).attempts() if datamon is not None else []
        running = [split for split in splits if split.state is SplitState.RUNNING]
        uploads = [one for one in await with_progress(datamon, running) if one["retry"] is not None]
    retrying = [retry for retry in map(shown_retry, own) if retry is not None]
    return retrying + [{"split": one["id"], "tag": one["tag"]} | one["retry"] for one in uploads]


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
@click.option("--message", default=None, help="What this version is, in a sentence.")
@label_option(required=False, about="A label to point to the new bundle, once it exists.")
@_mode_options
@click.option(
    "--order",
    type=click.Choice([order.value for order in Order]),
    default=Order.UPLOADED.value,
    show_default=True,
    help="What decides which version is the later one.",
)
@click.option("--wait", is_flag=True, help="Wait for running splits to end first.")
@click.option("--splits", type=click.IntRange(1), default=None, help="Refuse to commit fewer done splits than this.")
@age_option(
    "--timeout", None, "With --wait: how long to wait at most, such as 90m or 12h. After that the commit fails."
)
@click.option("--dry-run", is_flag=True, help="Only show what would win, conflict and be left out.")
@meta_option()
@request_option
@format_option
def commit(
    repo: RepoName,
    diamond: DiamondId,
    message: str | None,
    label: LabelName | None,
    order: str,
    splits: int | None,
    timeout: timedelta | None,
    meta: tuple[tuple[str, str], ...],
    request: str | None,
    format: str,
    *,
    wait: bool,
    dry_run: bool,
    **modes: bool,
) -> None:
    """Make one bundle of all done splits, and print its id.

    Splits that are still running are left out and stopped, unless --wait is given. With --wait and --splits N
    the commit waits until N splits are done and none is running; one that fails may be added again meanwhile.
    With --dry-run nothing is changed.

    Example: datamon diamond commit --repo weather --diamond $diamond --message March --wait --splits 3
    """
    mode = _mode(modes)
    if dry_run and wait:
        raise BadUsage("--dry-run looks at what is there now, so it cannot be combined with --wait")
    if timeout is not None and not wait:
        raise BadUsage("--timeout needs --wait: it says how long to wait")
    if not dry_run:
        require(click.get_current_context(), "message")

    async def run(datamon: Datamon) -> CommitAnswer | None:
        opened = datamon.diamonds.get(repo, diamond)
        if dry_run:
            show_preview(await opened.preview(mode, Order(order), splits), format)
            return None
        with on_interrupt("a commit that was accepted goes on; `datamon diamond get` shows how it ends"):
            work = opened.commit(
                message or "",
                mode,
                Order(order),
                wait=wait,
                splits=splits,
                timeout_seconds=timeout.total_seconds() if timeout is not None else None,
                label=label,
                metadata=dict(meta),
                request=request,
            )
            return await wait_for_commit(opened, work)

    answer = run_connected(run)
    if answer is not None:
        print_result(answer.bundle, answer, format)
        summarize_bundle(answer, mode)


def _mode(flags: Mapping[str, bool]) -> ConflictMode:
    chosen = [mode for mode in ConflictMode if flags[mode.name.lower()]]
    if len(chosen) > 1:
        raise BadUsage(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else ConflictMode.KEEP


@diamond.command()
@repo_option()
@diamond_option()
@click.option("--reason", default="canceled by the user", help="Why it is canceled, shown with its splits.")
@request_option
def cancel(repo: RepoName, diamond: DiamondId, reason: str, request: str | None) -> None:
    """Stop all splits of a diamond and close it without a bundle.

    Example: datamon diamond cancel --repo weather --diamond $diamond
    """
    run_connected(lambda datamon: datamon.diamonds.get(repo, diamond).cancel(reason, request=request))
    say(f"diamond {diamond} is canceled")


@diamond.command()
@repo_option()
@diamond_option()
@click.option("--server-lost", is_flag=True, help="Confirm that the Temporal server it was opened on is lost for good.")
@result_format_option
def recover(repo: RepoName, diamond: DiamondId, format: str, *, server_lost: bool) -> None:
    """Recover a diamond whose workflow is gone: its Temporal server was lost, or somebody terminated it.

    The diamond is rebuilt from the store: done splits count, and splits that were running are failed. After that,
    splits can be added again, and the diamond can be committed or canceled.

    Example: datamon diamond recover --repo weather --diamond $diamond
    """

    async def run(datamon: Datamon) -> DiamondStatus:
        recovered = await datamon.diamonds.recover(repo, diamond, server_lost=server_lost)
        return await recovered.status()

    status = run_connected(run)
    if format != "table":
        print_one(status, format)
    counts = ", ".join(f"{number} {state}" for state, number in status.splits.items() if number)
    made = f", as bundle {status.bundle}" if status.bundle else ""
    say(f"diamond {diamond} is {status.state}{made}; splits: {counts or 'none'}")


@diamond.command()
@repo_option()
@diamond_option()
@click.option(
    "--output", type=click.Path(dir_okay=False, allow_dash=True), required=True, help="The file; - is stdout."
)
def report(repo: RepoName, diamond: DiamondId, output: str) -> None:
    """Write a page about a diamond: who was slow, files by split, conflicts, contributors, what was left out and why.

    The page is one HTML file that needs nothing else. It is made from the store alone, even while the diamond is open.

    Example: datamon diamond report --repo weather --diamond $diamond --output report.html
    """
    from datamon.starter.report import page

    text = page(report_on(Settings.load().context(), repo, diamond), instant(time.time_ns()))
    if output == "-":
        click.echo(text, nl=False)
        return
    fresh = Path(f"{output}.new")  # a full disk must not take an older report with it
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(output)
    say(f"the report is in {output}")
