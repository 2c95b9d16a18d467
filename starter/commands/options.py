"""Options that many commands take. Each turns text into a checked id at the door."""

from __future__ import annotations

from collections.abc import Callable

import click

from datamon.ids import bundle_id, diamond_id, repo_name, split_id
from starter.output import Command


def _id(*names: str, check: Callable[[str], str], required: bool, about: str) -> Callable[[Command], Command]:
    def callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        return None if value is None else check(value)

    return click.option(*names, required=required, callback=callback, help=about)


def repo_option(*, required: bool = True) -> Callable[[Command], Command]:
    """`--repo`."""
    return _id("--repo", check=repo_name, required=required, about="Name of the repo.")


def diamond_option(*, required: bool = True, about: str = "Id of the diamond.") -> Callable[[Command], Command]:
    """`--diamond`."""
    return _id("--diamond", check=diamond_id, required=required, about=about)


def split_option(*, required: bool = False, about: str = "Id of the split.") -> Callable[[Command], Command]:
    """`--split`, or `--split-id` as the same."""
    return _id("--split", "--split-id", "split", check=split_id, required=required, about=about)


def source_options(command: Command) -> Command:
    """What to upload, and what of it."""
    for option in reversed(
        [
            click.option("--path", required=True, help="A folder or file of this machine, or s3://bucket/prefix."),
            click.option("--files", type=click.File("rb"), help="Only the names in this list, one a line; - is stdin."),
            click.option("--name-filter", default="", help="Only names in which this regular expression is found."),
            click.option("--skip-on-error", is_flag=True, help="Leave out what cannot be uploaded, and count it."),
        ]
    ):
        command = option(command)
    return command


def bundle_option(*, required: bool = True) -> Callable[[Command], Command]:
    """`--bundle`."""
    return _id("--bundle", check=bundle_id, required=required, about="Id of the bundle.")
