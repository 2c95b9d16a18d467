"""Keeping the server of a home running as long as a stack or worker does."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datamon.starter.warm.surroundings import FOLDER

_PR_SET_PDEATHSIG = 1
STOP_SECONDS = 5

_log = logging.getLogger(__name__)


@contextmanager
def warm_server(home: Path) -> Iterator[None]:
    """Run a server while the block runs. Commands that it has begun by then go on to their end."""
    if os.environ.get("DATAMON_NO_FORK") or sys.platform != "linux":
        yield
        return
    try:
        process = _started(home)
    except (OSError, subprocess.SubprocessError) as error:  # commands do without
        _log.warning("commands on this host take as long as ever: %s", error)
        yield
        return
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(home: Path) -> subprocess.Popen[bytes]:
    folder, parent = home / FOLDER, os.getpid()

    def die_with_parent() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "datamon.starter.warm.server", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # a Ctrl-C at the terminal of the worker is none of its business
            preexec_fn=die_with_parent,
        )
