"""`datamon housekeeping`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from datamon.core.errors import Failed
from datamon.core.text import counted
from datamon.diamonds.findings import Finding, Verdict
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.connected import run_connected
from datamon.starter.commands.common.interrupts import on_interrupt
from datamon.starter.commands.common.options import age_option
from datamon.starter.output import Command, format_option, one_format_option, print_listing, print_one, say, seconds
from datamon.starter.progress import AttemptMeter, meter

if TYPE_CHECKING:
    from datamon.starter.client import Datamon
    from datamon.workflows.housekeeping import HousekeepingReport


@click.group(cls=Group)
def housekeeping() -> None:
    """Remove what is left of diamonds that ended long ago. Their bundles stay."""


def _age_options(command: Command) -> Command:
    silent = age_option("--abandoned-after", "30d", "Report diamonds that have been open and silent for this long.")
    return age_option("--older-than", "7d", "Remove diamonds that ended this long ago or longer.")(silent(command))


@housekeeping.command()
@_age_options
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@format_option
def run(older_than: timedelta, abandoned_after: timedelta, format: str, *, dry_run: bool) -> None:
    """Clean up all repos once, now.

    A done diamond is removed only if its bundle is complete. An open diamond is never removed.

    Example: datamon housekeeping run --dry-run --older-than 30d
    """

    async def work(datamon: Datamon) -> HousekeepingReport:
        with on_interrupt("the round goes on; the Web UI shows it as the workflow `housekeeping`"):
            return await _showing_retries(
                datamon, datamon.housekeeping.run(older_than, abandoned_after, dry_run=dry_run)
            )

    report = run_connected(work)
    if format == "table":
        columns = ("REPO", "DIAMOND", "STATE", "SINCE", "OUTCOME", "NOTE")
        print_listing(report.findings, format, columns, lambda finding: _row(finding, dry_run=dry_run))
    else:
        print_one(report, format)
    _summarize(report)


async def _showing_retries(
    datamon: Datamon, round_of_it: Coroutine[None, None, HousekeepingReport]
) -> HousekeepingReport:
    """What a round comes to; and until it has, what of it has to be tried again."""
    report = asyncio.ensure_future(round_of_it)
    try:
        with meter("housekeeping") as seen:
            shown = AttemptMeter(seen)
            while not (await asyncio.wait([report], timeout=seen.pace))[0]:
                for attempt in await datamon.housekeeping.attempts():
                    if attempt.failure is not None:
                        shown.show(attempt)
        return await report
    finally:
        report.cancel()


def _row(finding: Finding, *, dry_run: bool) -> tuple[object, ...]:
    outcome = {Verdict.REMOVE: "would go" if dry_run else "removed", Verdict.KEEP: "kept"}
    verdict = outcome.get(finding.verdict, "open")
    return finding.repo, finding.diamond, finding.state, seconds(finding.since), verdict, finding.note


def _summarize(report: HousekeepingReport) -> None:
    more = report.removed + report.kept + report.abandoned - len(report.findings)
    if more > 0:
        say(f"and {counted(more, 'diamond')} more")
    done = "would be removed" if report.dry_run else f"removed, {counted(report.objects, 'object')}"
    others = f"{report.kept} kept for a reason; {report.abandoned} open and apparently abandoned"
    say(f"{counted(report.repos, 'repo')}: {counted(report.removed, 'diamond')} {done}; {others}")
    if report.failures:
        repo, why = next(iter(report.failures.items()))
        nor = f", and neither could {len(report.failures) - 1} more" if len(report.failures) > 1 else ""
        raise Failed(f"repo {repo} could not be cleaned up{nor}: {why}")


@housekeeping.command()
@_age_options
@click.option("--cron", default=None, help="When to run, as a cron expression in UTC. By default '0 3 * * SUN'.")
@click.option("--off", is_flag=True, help="Stop the scheduled rounds.")
@one_format_option
def schedule(older_than: timedelta, abandoned_after: timedelta, cron: str | None, format: str, *, off: bool) -> None:
    """Schedule rounds every week, or as --cron says, and show them. This replaces what was scheduled before.

    Example: datamon housekeeping schedule --cron "0 3 * * SUN" --older-than 30d
    """

    async def work(datamon: Datamon) -> None:
        from datamon.starter.housekeeping import WEEKLY

        if off:
            await datamon.housekeeping.unschedule()
            say("no more rounds are scheduled")
        else:
            print_one(await datamon.housekeeping.schedule(cron or WEEKLY, older_than, abandoned_after), format)

    run_connected(work)


@housekeeping.command()
@one_format_option
def get(format: str) -> None:
    """Show when the next rounds are scheduled, and when the last ones were.

    Example: datamon housekeeping get
    """
    print_one(run_connected(lambda datamon: datamon.housekeeping.scheduled()), format)
