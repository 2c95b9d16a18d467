"""What the commands that upload share: looking at the source, and serving it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from datamon.core.errors import BadUsage, SourceMissing, SourceUnreadable
from datamon.core.text import os_reason
from datamon.sources.source import Links, is_s3_url
from datamon.starter.output import say

if TYPE_CHECKING:
    from datamon.starter.client import Datamon


def selected(given: Mapping[str, Any]) -> dict[str, Any]:
    """What `source_options` says of the files to upload, as fields of SplitOptions."""
    files: BinaryIO | None = given["files"]
    return {
        "files": files.read() if files is not None else None,
        "name_filter": given["name_filter"],
        "include": given["include"],
        "exclude": given["exclude"],
        "skip_on_error": given["skip_on_error"],
        "allow_empty": given["allow_empty"] or None,
        "links": Links(given["links"]),
        "empty_folders": given["empty_folders"],
        "reread": given["reread"],
    }


def check_source(path: str) -> None:
    """Say at once what can be seen from here; the worker looks again, and at every file."""
    if is_s3_url(path):
        return
    if path.startswith("s3:") and not os.path.exists(path):
        raise BadUsage(f"{path!r} is not an S3 location; write it as s3://bucket/prefix")
    path = os.path.abspath(path)
    try:
        with os.scandir(path):
            pass
    except NotADirectoryError:
        if not os.access(path, os.R_OK):
            raise SourceUnreadable(path, "permission denied") from None
    except FileNotFoundError:
        raise SourceMissing(path) from None
    except OSError as error:
        raise SourceUnreadable(path, os_reason(error)) from error


@asynccontextmanager
async def serving_source(datamon: Datamon, path: str, *, detach: bool = False) -> AsyncIterator[bool]:
    """A worker that sees the path: one that is there, or else this command, and whether it is this command.

    Any worker sees what is in S3.
    """
    if is_s3_url(path) or detach:
        yield False
        return
    async with datamon.serving_host() as ourselves:
        if ourselves:
            say("no worker serves this host, so this command does until the split is done")
        yield ourselves
