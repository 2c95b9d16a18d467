"""Options that many commands take. Each turns text into a checked id at the door."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

import click
from click.shell_completion import CompletionItem

from datamon.bundles import labels
from datamon.bundles.catalog import get_bundle
from datamon.bundles.model import Bundle
from datamon.core.errors import BadUsage, DatamonError, NotFound, Remedy
from datamon.core.ids import (
    BundleId,
    DiamondId,
    LabelName,
    RepoName,
    bundle_id,
    diamond_id,
    label_name,
    repo_name,
    split_id,
)
from datamon.settings.settings import Settings
from datamon.sources.source import Links
from datamon.starter.output import Command
from datamon.stores import keys
from datamon.stores.context import Context


def checked(check: Callable[[str], str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback of an option that takes an id."""

    def callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        return None if value is None else check(value)

    return callback


def require(ctx: click.Context, *names: str) -> None:
    """What click says of an option that is missing, where only one of two uses of a group needs it."""
    for name in names:
        parameter = next(one for one in ctx.command.params if one.name == name)
        if ctx.params.get(name) is None:
            raise click.MissingParameter(ctx=ctx, param=parameter)


def _id(
    *names: str, check: Callable[[str], str], required: bool, about: str, existing: Existing | None = None
) -> Callable[[Command], Command]:
    complete = _completed(existing) if existing is not None else None
    return click.option(*names, required=required, callback=checked(check), help=about, shell_complete=complete)


Existing = Callable[[Context, dict[str, str]], Iterable[str]]
"""What there is in the store, given the options before."""


def _completed(existing: Existing) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """What a shell offers. Where the store cannot be asked, that is nothing."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(DatamonError, KeyError, OSError):
            names = existing(Settings.load().context(), ctx.params)
            return [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return []

    return complete


def _repos(context: Context, _: dict[str, str]) -> Iterable[str]:
    return context.metadata.folders(keys.REPOS)


def _diamonds(context: Context, given: dict[str, str]) -> Iterable[str]:
    return context.vmetadata.folders(keys.diamonds(RepoName(given["repo"])))


def _splits(context: Context, given: dict[str, str]) -> Iterable[str]:
    return context.vmetadata.folders(keys.splits(RepoName(given["repo"]), DiamondId(given["diamond"])))


def _bundles(context: Context, given: dict[str, str]) -> Iterable[str]:
    return context.metadata.folders(keys.bundles(RepoName(given["repo"])))


def _labels(context: Context, given: dict[str, str]) -> Iterable[str]:
    return context.vmetadata.folders(keys.labels(RepoName(given["repo"])))


def repo_option(*, required: bool = True) -> Callable[[Command], Command]:
    """`--repo`."""
    return _id("--repo", check=repo_name, required=required, about="Name of the repo.", existing=_repos)


def diamond_option(*, required: bool = True, about: str = "Id of the diamond.") -> Callable[[Command], Command]:
    """`--diamond`."""
    return _id("--diamond", check=diamond_id, required=required, about=about, existing=_diamonds)


def split_option(*, required: bool = False, about: str = "Id of the split.") -> Callable[[Command], Command]:
    """`--split`, or `--split-id` as the same."""
    return _id("--split", "--split-id", "split", check=split_id, required=required, about=about, existing=_splits)


def state_option(states: type[StrEnum]) -> Callable[[Command], Command]:
    """`--state`, of listings."""
    return click.option(
        "--state", type=click.Choice([str(state) for state in states]), help="Only those in this state."
    )


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


_CENTURY = timedelta(days=36_525)


def age_option(name: str, default: str | None, about: str) -> Callable[[Command], Command]:
    """An option that takes a span of time."""

    def age(ctx: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
        if value is None:
            return None
        match = re.fullmatch(r"(\d{1,6})([smhdw])", value)
        if match is None:
            raise BadUsage(f"{value!r} is not a span of time; write it as 90m, 12h, 7d or 4w")
        span = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if span > _CENTURY:
            raise BadUsage(f"{value!r} is more than a hundred years")
        return span

    return click.option(name, default=default, show_default=default is not None, callback=age, help=about)


def source_options(command: Command) -> Command:
    """What to upload, and what of it."""
    for option in reversed(
        [
            click.option("--path", required=True, help="A folder or file of this machine, or s3://bucket/prefix."),
            click.option(
                "--files", type=click.File("rb"), help="Only the names in this list, one on each line; - is stdin."
            ),
            click.option("--name-filter", default="", help="Only names in which this regular expression is found."),
            click.option(
                "--include", multiple=True, metavar="GLOB", help="Only names that match this; may be repeated."
            ),
            click.option("--exclude", multiple=True, metavar="GLOB", help="No names that match this; may be repeated."),
            click.option("--skip-on-error", is_flag=True, help="Leave out what cannot be uploaded, and name it."),
            click.option("--allow-empty", is_flag=True, help="Accept it if there is nothing to upload."),
            click.option(
                "--links",
                type=click.Choice([str(one) for one in Links]),
                default=str(Links.FOLLOW),
                show_default=True,
                help="Upload the files that symbolic links lead to, or keep the links.",
            ),
            click.option("--empty-folders", is_flag=True, help="Keep folders that are empty."),
            click.option("--reread", is_flag=True, help="Read every file, also those known not to have changed."),
        ]
    ):
        command = option(command)
    return command


def confirmation_option(command: Command) -> Command:
    """`--yes`, of what cannot be undone; see `confirm`."""
    return click.option("--yes", is_flag=True, help="Do it without asking.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, at a terminal; elsewhere there is nobody to ask."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadUsage("this cannot be undone, and there is no terminal to ask on; add --yes")
    click.confirm(question, abort=True, err=True)


def request_option(command: Command) -> Command:
    """`--request`, of what changes a diamond."""
    about = "An id of your own for this request. A request that is sent again counts once and has the same result."
    return click.option("--request", default=None, metavar="ID", help=about)(command)


def bundle_option(*, required: bool = True) -> Callable[[Command], Command]:
    """`--bundle`."""
    return _id("--bundle", check=bundle_id, required=required, about="Id of the bundle.", existing=_bundles)


def label_option(*, required: bool = True, about: str = "Name of the label.") -> Callable[[Command], Command]:
    """`--label`."""
    return _id("--label", check=label_name, required=required, about=about, existing=_labels)


def bundle_ref_options(command: Command) -> Command:
    """`--bundle` or `--label`; see `bundle_of`."""
    by_label = label_option(required=False, about="The bundle that this label points to.")
    return bundle_option(required=False)(by_label(command))


def bundle_of(context: Context, repo: RepoName, bundle: BundleId | None, label: LabelName | None) -> Bundle:
    """The bundle that was asked for, by its id or by a label."""
    if bundle is not None and label is not None:
        raise BadUsage("--bundle and --label exclude each other")
    if label is not None:
        return get_bundle(context, repo, labels.get_label(context, repo, label).bundle)
    if bundle is None:
        raise BadUsage("say which bundle: --bundle ID or --label NAME")
    try:
        return get_bundle(context, repo, bundle)
    except NotFound as error:
        if error.kind == "bundle" and _has_label(context, repo, bundle):
            raise replace(error, remedy=Remedy.USE_LABEL) from None
        raise


def _has_label(context: Context, repo: RepoName, name: str) -> bool:
    with suppress(DatamonError):
        return bool(labels.get_label(context, repo, label_name(name)))
    return False


def _key_value(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = tuple((key, text) for key, _, text in (one.partition("=") for one in value))
    if not all(key and "=" in one for (key, _), one in zip(pairs, value, strict=True)):
        raise click.BadParameter("write it as KEY=VALUE", ctx, parameter)
    return pairs


def meta_option(
    about: str = "A fact of your own, kept in the bundle; may be repeated.",
) -> Callable[[Command], Command]:
    """`--meta`, of what makes diamonds and bundles, and of listings."""
    return click.option("--meta", multiple=True, metavar="KEY=VALUE", callback=_key_value, help=about)


def meta_filter_option(command: Command) -> Command:
    """`--meta`, of listings."""
    return meta_option("Only those with this metadata; may be repeated.")(command)


def has_metadata(metadata: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Whether metadata holds all of some pairs."""
    return all(metadata.get(key) == value for key, value in wanted)
