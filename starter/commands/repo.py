"""`datamon repo`."""

from __future__ import annotations

import time

import click

from datamon import catalog
from datamon.ids import RepoName
from datamon.settings import Settings
from starter.commands.base import Group
from starter.commands.options import repo_option
from starter.output import format_option, print_listing, print_result, result_format_option, say, seconds


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
    made = catalog.create_repo(settings.context(), repo, description, settings.contributor, time.time_ns())
    print_result(repo, made, format)
    say(f"repo {repo} is in {settings.store}")


@repo.command(name="list")
@format_option
def list_repos(format: str) -> None:
    """List all repos.

    Example: datamon repo list --format json
    """
    print_listing(
        catalog.repos(Settings.load().context()),
        format,
        ("REPO", "CREATED", "CONTRIBUTOR", "DESCRIPTION"),
        lambda repo: (repo.name, seconds(repo.created), repo.contributor, repo.description),
    )
