"""`datamon bundle`."""

from __future__ import annotations

from pathlib import Path

import click

from datamon import catalog
from datamon.download import bundle_entries, download
from datamon.errors import BadUsage, counted
from datamon.ids import BundleId, RepoName
from datamon.names import prefixed
from datamon.settings import Settings
from starter.commands.options import bundle_option, repo_option
from starter.output import amount, format_option, one_format_option, print_listing, print_one, say, seconds
from starter.progress import download_bar


@click.group()
def bundle() -> None:
    """List, show and download bundles."""


@bundle.group(name="list", invoke_without_command=True)
@repo_option(required=False)
@format_option
@click.pass_context
def list_group(ctx: click.Context, repo: RepoName | None, format: str) -> None:
    """List the bundles of a repo, or with `files` the files of a bundle.

    Example: datamon bundle list --repo weather
    """
    if ctx.invoked_subcommand is not None:
        return
    if repo is None:
        raise BadUsage("Missing option '--repo'.")
    print_listing(
        catalog.bundles(Settings.load().context(), repo),
        format,
        ("BUNDLE", "CREATED", "FILES", "BYTES", "CONFLICTS", "MESSAGE"),
        lambda b: (b.id, seconds(b.created), b.files, b.bytes, b.conflicts, b.message),
    )


@list_group.command(name="files")
@repo_option()
@bundle_option()
@click.option("--prefix", default="", help="Only names that start with this.")
@format_option
def list_files(repo: RepoName, bundle: BundleId, prefix: str, format: str) -> None:
    """List the files of a bundle by name.

    Example: datamon bundle list files --repo weather --bundle $bundle --prefix 2026/03/
    """
    context = Settings.load().context()
    entries = bundle_entries(context, catalog.get_bundle(context, repo, bundle), prefixed(prefix))
    print_listing(
        ({"name": e.name, "size": e.size, "hash": e.hash, "mode": e.mode, "mtime": e.mtime} for e, _ in entries),
        format,
        ("NAME", "SIZE", "HASH"),
        lambda file: (file["name"], file["size"], file["hash"]),
    )


@bundle.command()
@repo_option()
@bundle_option()
@one_format_option
def get(repo: RepoName, bundle: BundleId, format: str) -> None:
    """Show one bundle.

    Example: datamon bundle get --repo weather --bundle $bundle
    """
    print_one(catalog.get_bundle(Settings.load().context(), repo, bundle), format)


@bundle.command(name="download")
@repo_option()
@bundle_option()
@click.option("--destination", required=True, type=click.Path(path_type=Path), help="A folder that is empty or new.")
def download_bundle(repo: RepoName, bundle: BundleId, destination: Path) -> None:
    """Write all files of a bundle into a folder, each verified against its hash.

    Example: datamon bundle download --repo weather --bundle $bundle --destination ./march
    """
    context = Settings.load().context()
    found = catalog.get_bundle(context, repo, bundle)
    with download_bar(found) as show:
        download(context, found, destination, show)
    say(f"{counted(found.files, 'file')}, {amount(found.bytes)} in {destination}")
