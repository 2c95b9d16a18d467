"""`datamon repo`."""

from __future__ import annotations

import time

import click

from datamon.bundles.catalog import list_bundles
from datamon.bundles.repos import create_repo, list_repos
from datamon.core.ids import RepoName
from datamon.core.text import counted
from datamon.diamonds.catalog import delete_repo
from datamon.settings.settings import Settings
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.options import confirm, confirmation_option, repo_option
from datamon.starter.output import format_option, print_listing, print_result, result_format_option, say, seconds


@click.group(cls=Group)
def repo() -> None:
    """Make and list repos: named collections of bundles."""


@repo.command()
@repo_option()
@click.option("--description", default="", help="What the repo holds, in a sentence.")
@result_format_option
def create(repo: RepoName, description: str, format: str) -> None:
    """Make a repo and print its name.

    Example: datamon repo create --repo weather --description "Daily weather"
    """
    settings = Settings.load()
    made = create_repo(settings.context(), repo, description, settings.contributor, time.time_ns())
    print_result(repo, made, format)
    say(f"repo {repo} is in {settings.store}")


@repo.command()
@repo_option()
@click.option("--reason", default="", help="Why it is deleted. This stays on record.")
@confirmation_option
def delete(repo: RepoName, reason: str, *, yes: bool) -> None:
    """Delete a repo with all its bundles. Its name cannot be used again, and who deleted it stays on record.

    This removes no content, because other repos may hold the same content.

    Example: datamon repo delete --repo scratch --reason "it was a trial" --yes
    """
    settings = Settings.load()
    context = settings.context()
    bundles = counted(sum(1 for _ in list_bundles(context, repo)), "bundle")
    confirm(f"Delete repo {repo} with {bundles}?", yes=yes)
    delete_repo(context, repo, settings.contributor, reason, time.time_ns())
    say(f"repo {repo} is deleted, with {bundles}")


@repo.command(name="list")
@format_option
def list_command(format: str) -> None:
    """List all repos.

    Example: datamon repo list --format json
    """
    print_listing(
        list_repos(Settings.load().context()),
        format,
        ("REPO", "CREATED", "CONTRIBUTOR", "DESCRIPTION"),
        lambda repo: (repo.name, seconds(repo.created), repo.contributor, repo.description),
    )
