"""`datamon repo`."""

from __future__ import annotations

import time

import click

from datamon.bundles.repos import create_repo, list_repos
from datamon.core.ids import RepoName
from datamon.settings.settings import Settings
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.options import repo_option
from datamon.starter.output import format_option, print_listing, print_result, result_format_option, say, seconds


@click.group(cls=Group)
def repo() -> None:
    """Make and list repos: named collections of bundles."""


@repo.command()
@repo_option()
@click.option("--description", default="", help="What it holds, in a sentence.")
@result_format_option
def create(repo: RepoName, description: str, format: str) -> None:
    """Make a repo and print its name.

    Example: datamon repo create --repo weather --description "Daily weather"
    """
    settings = Settings.load()
    made = create_repo(settings.context(), repo, description, settings.contributor, time.time_ns())
    print_result(repo, made, format)
    say(f"repo {repo} is in {settings.store}")


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
