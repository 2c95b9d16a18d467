"""`datamon housekeeping`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from datamon.errors import Failed, counted
from datamon.housekeeping import Finding, Verdict
from starter.commands.adding import on_interrupt
from starter.commands.base import Group
from starter.commands.options import age_option
from starter.output import Command, format_option, one_format_option, print_listing, print_one, say, seconds

if TYPE_CHECKING:
    from workflows.janitor import JanitorReport


@click.group(cls=Group)
def housekeeping() -> None:
    """Remove what is left of diamonds that ended long ago: their bundles stay."""


def _age_options(command: Command) -> Command:
    silent = age_option("--abandoned-after", "30d", "Tell of diamonds that are open and silent for this long.")
    return age_option("--older-than", "7d", "Remove what ended this long ago or longer.")(silent(command))


@housekeeping.command()
@_age_options
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@format_option
def run(older_than: timedelta, abandoned_after: timedelta, format: str, *, dry_run: bool) -> None:
    """Go through all repos once, now.

    A done diamond goes only when its bundle is seen to be complete. One that is open never goes.

    Example: datamon housekeeping run --dry-run --older-than 30d
    """

    async def work() -> JanitorReport:
        from starter.client import Datamon

        async with await Datamon.connect() as datamon:
            with on_interrupt("the round goes on; the Web UI shows it as the workflow `janitor`"):
                return await datamon.housekeeping.run(older_than, abandoned_after, dry_run=dry_run)

    report = asyncio.run(work())
    if format == "table":
        columns = ("REPO", "DIAMOND", "STATE", "SINCE", "OUTCOME", "NOTE")
        print_listing(report.findings, format, columns, lambda found: _row(found, dry_run=dry_run))
    else:
        print_one(report, format)
    _tell(report)


def _row(found: Finding, *, dry_run: bool) -> tuple[object, ...]:
    outcome = {Verdict.REMOVE: "would go" if dry_run else "removed", Verdict.KEEP: "kept"}
    return found.repo, found.diamond, found.state, seconds(found.since), outcome.get(found.verdict, "open"), found.note


def _tell(report: JanitorReport) -> None:
    more = report.removed + report.kept + report.abandoned - len(report.findings)
    if more > 0:
        say(f"and {counted(more, 'diamond')} more")
    done = "would be removed" if report.dry_run else f"removed, {counted(report.objects, 'object')}"
    others = f"{report.kept} kept for a reason; {report.abandoned} open that look abandoned"
    say(f"{counted(report.repos, 'repo')}: {counted(report.removed, 'diamond')} {done}; {others}")
    if report.failures:
        repo, why = next(iter(report.failures.items()))
        nor = f", nor {len(report.failures) - 1} more" if len(report.failures) > 1 else ""
        raise Failed(f"repo {repo} could not be tidied{nor}: {why}")


@housekeeping.command()
@_age_options
@click.option("--cron", default=None, help="When, as cron writes it, in UTC. By default '0 3 * * SUN'.")
@click.option("--off", is_flag=True, help="No more rounds.")
@one_format_option
def schedule(older_than: timedelta, abandoned_after: timedelta, cron: str | None, format: str, *, off: bool) -> None:
    """Have it done every week, or as --cron says, and show when. Given again, it replaces what was scheduled before.

    Example: datamon housekeeping schedule --cron "0 3 * * SUN" --older-than 30d
    """

    async def work() -> None:
        from starter.client import Datamon
        from starter.housekeeping import WEEKLY

        async with await Datamon.connect() as datamon:
            if off:
                await datamon.housekeeping.unschedule()
                say("no more rounds are scheduled")
            else:
                print_one(await datamon.housekeeping.schedule(cron or WEEKLY, older_than, abandoned_after), format)

    asyncio.run(work())


@housekeeping.command()
@one_format_option
def get(format: str) -> None:
    """Show when the next rounds are scheduled, and when the last ones were.

    Example: datamon housekeeping get
    """

    async def work() -> None:
        from starter.client import Datamon

        async with await Datamon.connect() as datamon:
            print_one(await datamon.housekeeping.scheduled(), format)

    asyncio.run(work())
