"""`datamon label`."""

from __future__ import annotations

import time

import click

from datamon.bundles import labels
from datamon.bundles.model import Label
from datamon.core.ids import BundleId, LabelName, RepoName, bundle_id
from datamon.settings.settings import Settings
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.options import bundle_option, checked, label_option, repo_option
from datamon.starter.output import (
    format_option,
    one_format_option,
    print_listing,
    print_one,
    result_format_option,
    say,
    seconds,
)

_COLUMNS = ("LABEL", "BUNDLE", "SET", "CONTRIBUTOR")


@click.group(cls=Group)
def label() -> None:
    """Give bundles movable names: `latest`, `approved`."""


@label.command(name="set")
@repo_option()
@label_option()
@bundle_option()
@click.option("--expect", callback=checked(bundle_id), help="Move the label only if it points to this bundle now.")
@result_format_option
def set_label(repo: RepoName, label: LabelName, bundle: BundleId, expect: BundleId | None, format: str) -> None:
    """Point a label to a bundle. The bundle it pointed to before stays in its history.

    Example: datamon label set --repo weather --label latest --bundle $bundle
    """
    settings = Settings.load()
    context, contributor = settings.context(), settings.contributor
    value = labels.label_bundle(context, repo, label, bundle, contributor, time.time_ns(), expect)
    if format != "table":
        print_one(value, format)
    say(f"label {label} of {repo} points to bundle {bundle}")


@label.command()
@repo_option()
@label_option()
@click.option("--history", is_flag=True, help="Show every value the label ever had, the newest first.")
@one_format_option
def get(repo: RepoName, label: LabelName, format: str, *, history: bool) -> None:
    """Show where a label points, and who set it and when.

    Example: datamon label get --repo weather --label latest --history
    """
    context = Settings.load().context()
    if history:
        print_one(labels.history(context, repo, label), format)
    else:
        print_one(labels.get_label(context, repo, label), format)


@label.command(name="list")
@repo_option()
@click.option("--prefix", default="", help="Only labels that start with this.")
@format_option
def list_command(repo: RepoName, prefix: str, format: str) -> None:
    """List the labels of a repo.

    Example: datamon label list --repo weather
    """
    matching = (one for one in labels.list_labels(Settings.load().context(), repo) if one.name.startswith(prefix))
    print_listing(matching, format, _COLUMNS, _row)


def _row(value: Label) -> tuple[object, ...]:
    return value.name, value.bundle, seconds(value.set), value.contributor
