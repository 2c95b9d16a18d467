"""`datamon bundle`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from datamon.bundles.catalog import list_bundles
from datamon.bundles.deletion import delete_bundle
from datamon.bundles.diff import Change, diff
from datamon.bundles.download import cat, download
from datamon.bundles.find import find_files
from datamon.bundles.reader import BundleReader, Selection
from datamon.bundles.refs import resolve
from datamon.content.entry import shown_name
from datamon.core.errors import BadUsage, DatamonError
from datamon.core.ids import BundleId, LabelName, RepoName, bundle_id
from datamon.core.names import only_name, range_of_pattern, sort_key, with_prefix
from datamon.core.text import counted
from datamon.settings.settings import Settings
from datamon.sources.source import name_pattern
from datamon.starter.commands.common.base import Group
from datamon.starter.commands.common.commit_progress import summarize_bundle, wait_for_commit
from datamon.starter.commands.common.connected import run_connected
from datamon.starter.commands.common.files import file_fields, named
from datamon.starter.commands.common.interrupts import interrupts
from datamon.starter.commands.common.options import (
    bundle_of,
    bundle_option,
    bundle_ref_options,
    checked,
    confirm,
    confirmation_option,
    has_metadata,
    label_option,
    meta_filter_option,
    meta_option,
    repo_option,
    require,
    source_options,
)
from datamon.starter.commands.common.sources import check_source, selected, serving_source
from datamon.starter.commands.common.split_progress import summarize_split, wait_for_split
from datamon.starter.output import (
    Command,
    amount,
    format_option,
    one_format_option,
    print_listing,
    print_one,
    print_result,
    result_format_option,
    say,
    seconds,
)
from datamon.starter.progress import meter

if TYPE_CHECKING:
    from datamon.bundles.model import Bundle
    from datamon.starter.client import Datamon
    from datamon.workflows.diamonds.messages import CommitAnswer


@click.group(cls=Group)
def bundle() -> None:
    """Make, list, show and download bundles."""


def _destination_option(about: str) -> Callable[[Command], Command]:
    return click.option("--destination", default=None, help=about)


@bundle.group(name="list", invoke_without_command=True)
@repo_option(required=False)
@meta_filter_option
@format_option
@click.pass_context
def list_group(ctx: click.Context, repo: RepoName | None, meta: tuple[tuple[str, str], ...], format: str) -> None:
    """List the bundles of a repo, or with `files` the files of a bundle.

    Example: datamon bundle list --repo weather
    """
    if ctx.invoked_subcommand is not None:
        return
    require(ctx, "repo")
    assert repo is not None
    print_listing(
        (_with_ratio(one) for one in list_bundles(Settings.load().context(), repo) if has_metadata(one.metadata, meta)),
        format,
        ("BUNDLE", "CREATED", "FILES", "BYTES", "STORED", "CONFLICTS", "MESSAGE"),
        lambda b: (b["id"], seconds(b["created"]), b["files"], b["bytes"], b["stored"], b["conflicts"], b["message"]),
    )


@list_group.command(name="files")
@repo_option()
@bundle_ref_options
@click.option("--prefix", default="", help="Only names that start with this.")
@format_option
def list_files(repo: RepoName, bundle: BundleId | None, label: LabelName | None, prefix: str, format: str) -> None:
    """List the files of a bundle by name.

    Example: datamon bundle list files --repo weather --label latest --prefix 2026/03/
    """
    context = Settings.load().context()
    entries = BundleReader(context, bundle_of(context, repo, bundle, label)).entries(with_prefix(prefix))
    print_listing(
        ({"name": entry.shown, **file_fields(entry)} for entry in entries),
        format,
        ("NAME", "SIZE", "HASH"),
        lambda file: (named(file), file["size"], file["hash"]),
    )


@bundle.command(name="diff")
@repo_option()
@click.argument("before", metavar="A", callback=checked(bundle_id))
@click.argument("after", metavar="B", callback=checked(bundle_id))
@click.option("--prefix", default="", help="Only names that start with this.")
@format_option
def diff_command(repo: RepoName, before: str, after: str, prefix: str, format: str) -> None:
    """Show which files were added, changed or removed between two bundles, given by id or label.

    A file is changed if its content or its mode differs.

    Example: datamon bundle diff --repo weather latest 3MBOR4tOxrz8xpsti0YykQ9n4ot
    """
    context = Settings.load().context()
    first, second = (BundleReader(context, resolve(context, repo, ref)) for ref in (before, after))
    counts: Counter[Change] = Counter()

    def counting() -> Iterator[dict[str, Any]]:
        for one in diff(first, second, with_prefix(prefix)):
            counts[one.change] += 1
            sides = {side: file_fields(entry) for side, entry in one.sides.items()}
            yield {"change": one.change, "name": shown_name(one.name), **sides}

    print_listing(
        counting(),
        format,
        ("CHANGE", "SIZE", "NAME"),
        lambda one: (one["change"], _newest(one)["size"], named(one, _newest(one))),
    )
    say(", ".join(f"{counts[change]} {change}" for change in Change))


def _newest(difference: dict[str, Any]) -> dict[str, Any]:
    """The file as it is now or, if it is gone, as it was."""
    newest: dict[str, Any] = difference.get("after") or difference["before"]
    return newest


@bundle.command()
@repo_option()
@bundle_ref_options
@one_format_option
def get(repo: RepoName, bundle: BundleId | None, label: LabelName | None, format: str) -> None:
    """Show one bundle.

    Example: datamon bundle get --repo weather --label latest
    """
    print_one(_with_ratio(bundle_of(Settings.load().context(), repo, bundle, label)), format)


def _with_ratio(bundle: Bundle) -> dict[str, Any]:
    """A bundle as it is described and, beside what is stored, how many times smaller that is."""
    shown: dict[str, Any] = {}
    for field, value in msgspec.to_builtins(bundle, str_keys=True).items():
        shown[field] = value
        if field == "stored":
            shown["ratio"] = round(bundle.bytes / bundle.stored, 2) if bundle.stored else None
    return shown


@bundle.command()
@repo_option()
@click.argument("pattern", metavar="NAME|GLOB")
@format_option
def find(repo: RepoName, pattern: str, format: str) -> None:
    """Find files by name in all bundles of a repo, the oldest bundle first.

    A glob follows the rules of .gitignore: without a slash it matches in any folder.

    Example: datamon bundle find --repo weather 'day-1.csv'
    """
    print_listing(
        (
            {"bundle": b.id, "created": b.created, "message": b.message, "name": entry.shown, **file_fields(entry)}
            for b, entry in find_files(Settings.load().context(), repo, pattern)
        ),
        format,
        ("BUNDLE", "CREATED", "SIZE", "HASH", "NAME"),
        lambda one: (one["bundle"], seconds(str(one["created"])), one["size"], str(one["hash"])[:12], named(one)),
    )


@bundle.command()
@repo_option()
@bundle_option()
@click.option("--reason", default="", help="Why it is deleted. This stays on record.")
@confirmation_option
def delete(repo: RepoName, bundle: BundleId, reason: str, *, yes: bool) -> None:
    """Delete a bundle that no label points to. Who deleted it, when and why stays on record.

    Its content stays in the store, because other bundles may hold the same content: a secret that was uploaded
    is not erased.

    Example: datamon bundle delete --repo weather --bundle $bundle --reason "it was a rehearsal" --yes
    """
    settings = Settings.load()
    context = settings.context()
    described = bundle_of(context, repo, bundle, None)
    confirm(f"Delete bundle {bundle} ({described.message}) with {counted(described.files, 'file')}?", yes=yes)
    delete_bundle(context, repo, bundle, settings.contributor, reason, time.time_ns())
    say(f"bundle {bundle} is deleted")


@bundle.group(name="download", invoke_without_command=True)
@repo_option(required=False)
@bundle_ref_options
@_destination_option("A new or empty folder, or one with this download half done.")
@click.option("--name-filter", default="", help="Only names in which this regular expression is found.")
@click.option(
    "--force", is_flag=True, help="Write into a folder that holds other files, and replace those of the same name."
)
@click.option("--delete", is_flag=True, help="Delete what earlier downloads put there and this bundle does not hold.")
@click.pass_context
def download_group(
    ctx: click.Context,
    repo: RepoName | None,
    bundle: BundleId | None,
    label: LabelName | None,
    destination: str | None,
    name_filter: str,
    *,
    force: bool,
    delete: bool,
) -> None:
    """Write the files of a bundle into a folder, each verified against its hash.

    To continue an interrupted download, run the same command again. With --delete, a folder that holds another bundle
    is made to match this one; files that no download put there, or that were changed since, stay.

    Example: datamon bundle download --repo weather --bundle $bundle --destination ./march
    """
    if ctx.invoked_subcommand is not None:
        return
    require(ctx, "repo", "destination")
    assert repo is not None
    assert destination is not None
    if delete and name_filter:
        raise BadUsage("--delete makes a folder the whole bundle, so it cannot be combined with --name-filter")
    selection = None
    if name_filter:
        selection = Selection(range_of_pattern(name_filter), name_pattern(name_filter).search)
    context = Settings.load().context()
    reader = BundleReader(context, bundle_of(context, repo, bundle, label))
    _download(reader, Path(destination), selection, force=force, delete=delete)


@download_group.command(name="file")
@repo_option()
@bundle_ref_options
@click.option("--file", "name", required=True, help="The name of the file in the bundle.")
@_destination_option("A folder to write the file into, under its name. By default it is written to stdout.")
@click.option("--force", is_flag=True, help="Write into a folder that holds other files.")
def download_file(
    repo: RepoName,
    bundle: BundleId | None,
    label: LabelName | None,
    name: str,
    destination: str | None,
    *,
    force: bool,
) -> None:
    """Write one file of a bundle to stdout, or into a folder.

    Example: datamon bundle download file --repo weather --bundle $bundle --file 2026/03/day-1.csv > day-1.csv
    """
    context = Settings.load().context()
    reader = BundleReader(context, bundle_of(context, repo, bundle, label))
    if destination in (None, "-"):
        cat(reader, name, sys.stdout.buffer)
        return
    reader.find(name)
    _download(reader, Path(destination or ""), Selection(only_name(sort_key(name))), force=force)


def _download(
    reader: BundleReader, destination: Path, selection: Selection | None, *, force: bool, delete: bool = False
) -> None:
    bundle, done = reader.bundle, Counter[str]()

    with meter("download") as seen:

        def show(files: int, size: int) -> None:
            done.update(files=files, bytes=size)
            seen.show(done["files"], bundle.files, done["bytes"], bundle.bytes)

        try:
            result = download(reader, destination, selection, force=force, delete=delete, progress=show)
        except KeyboardInterrupt:
            say(f"what was downloaded is in {destination}; run the same command again to continue")
            raise
    kept = f", {counted(result.kept, 'file')} of them already there" if result.kept else ""
    say(f"{counted(result.files, 'file')}, {amount(result.bytes)} in {destination}{kept}")
    if result.deleted:
        say(f"{counted(result.deleted, 'file')} of an earlier download deleted")
    if result.changed:
        say(f"{counted(result.changed, 'file')} of an earlier download kept, because somebody has changed them")


@bundle.command()
@repo_option()
@source_options
@click.option("--message", required=True, help="What this version is, in a sentence.")
@label_option(required=False, about="A label to point to the new bundle.")
@meta_option()
@result_format_option
def upload(
    repo: RepoName,
    path: str,
    message: str,
    label: LabelName | None,
    meta: tuple[tuple[str, str], ...],
    format: str,
    **source: Any,
) -> None:
    """Make a bundle from the files of one machine, and print its id. This commits a diamond with one split.

    Example: datamon bundle upload --repo weather --path ./march --message "March, corrected"
    """
    check_source(path)

    async def run(datamon: Datamon) -> CommitAnswer:
        from datamon.starter.client import SplitOptions

        options = SplitOptions(**selected(source) | {"allow_empty": source["allow_empty"]})
        async with serving_source(datamon, path) as ours:
            diamond = await datamon.diamonds.initialize(repo, tag="bundle upload")
            try:
                split = await diamond.add(path, options)
                with interrupts() as pressed:
                    summarize_split(await wait_for_split(split, pressed, ours=ours), path)
                commit = diamond.commit(message, label=label, metadata=dict(meta))
                return await wait_for_commit(diamond, commit)
            except BaseException as error:
                reason = "interrupted" if isinstance(error, asyncio.CancelledError | click.Abort) else str(error)
                with suppress(DatamonError):
                    await diamond.cancel(f"bundle upload: {reason}")
                raise

    answer = run_connected(run)
    print_result(answer.bundle, answer, format)
    summarize_bundle(answer)
