"""What the commands that upload share: looking at the source, and serving it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from datamon.core.errors import SourceMissing, SourceUnreadable
from datamon.core.text import os_reason
from datamon.sources.source import is_s3_url
from datamon.starter.output import say

if TYPE_CHECKING:
    from datamon.starter.client import Datamon


def check_source(path: str) -> None:
    """Say at once what can be seen from here; the worker looks again, and at every file."""
    if is_s3_url(path):
        return
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
