"""`datamon up`, `down`, `status` and `worker`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from datamon.core.errors import DatamonError, Failed, ServerUnreachable
from datamon.settings import configuration
from datamon.settings.settings import Settings
from datamon.settings.stack import Stack, hold_stack, is_stack_alive, running_stack, stack_exists, stack_pid
from datamon.starter.advice import sentence
from datamon.starter.commands.common.base import Command
from datamon.starter.output import one_format_option, print_one, say
from datamon.starter.warm.process import warm_server

START_SECONDS = 30
DETACH_SECONDS = 90
DOWN_SECONDS = 30


@click.command(cls=Command)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=None, help="Temporal's port. By default 7233 or a free one."
)
@click.option(
    "--ui-port", type=click.IntRange(1, 65535), default=None, help="The Web UI's port. By default 8233 or a free one."
)
@click.option("--detach", is_flag=True, help="Return once it is up, and leave it running.")
def up(port: int | None, ui_port: int | None, *, detach: bool) -> None:
    """Start the embedded Temporal server and a worker with local Spark.

    Everything is kept in DATAMON_HOME, so open diamonds continue when the stack is started again.

    Example: datamon up --detach
    """
    settings = Settings.load()
    if settings.encryption_key:
        from datamon.worker.connection.encryption import converter

        converter(settings.encryption_key, for_worker=True)  # before anything is started
    if detach:
        _announce(_detached(settings, port, ui_port))
        asyncio.run(_warn_of_store(settings))
    else:
        _listen_to_signals_early()
        asyncio.run(_up(settings, port, ui_port))


def _listen_to_signals_early() -> None:
    """A SIGTERM while modules are still being imported is as good as a Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


async def _up(settings: Settings, port: int | None, ui_port: int | None) -> None:
    from datamon.worker.connection.client import answers
    from datamon.worker.server import temporal_server
    from datamon.worker.telemetry import write_logs

    write_logs(settings)
    stop = _stop_event()
    with hold_stack(settings.home) as announcement:
        async with temporal_server(settings.home, answers, port, ui_port) as server:
            stack = Stack(server.address, server.ui, settings.store)
            if stop.is_set():  # asked to, while the server was starting
                return
            await _serve_until(stop, settings, stack, announcement, server.process)


async def _serve_until(
    stop: asyncio.Event, settings: Settings, stack: Stack, announcement: Path, server: asyncio.subprocess.Process
) -> None:
    import msgspec

    from datamon.worker.connection.client import connect
    from datamon.worker.connection.queues import require_worker
    from datamon.worker.service import serving
    from datamon.workflows.common.names import queues_of

    client = await connect(settings, for_worker=True, address=stack.address)
    await asyncio.to_thread(_make_own_store, settings)
    async with serving(client, settings):
        await require_worker(client, *queues_of(settings.host), patience=START_SECONDS)
        if stop.is_set():
            return
        fresh = announcement.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(stack))
        fresh.replace(announcement)
        _announce(stack)
        await _warn_of_store(settings)
        _announce_metrics(settings)
        say("Ctrl-C stops it")
        gone = asyncio.ensure_future(server.wait())
        stopped = asyncio.ensure_future(stop.wait())
        with warm_server(settings.home):
            await asyncio.wait([gone, stopped], return_when=asyncio.FIRST_COMPLETED)
        announcement.unlink(missing_ok=True)
        stopped.cancel()
        if gone.done():
            raise Failed(f"the Temporal server ended; {settings.home / 'temporal.log'} may say why")
        gone.cancel()


def _make_own_store(settings: Settings) -> None:
    """A store inside of the home is the stack's own, so it is made with it. Others may only have to be mounted."""
    from datamon.stores.identity import ensure_store

    if Path(settings.store).is_relative_to(settings.home):
        with suppress(DatamonError):  # what is wrong with it is said once the stack is up
            ensure_store(settings.context(), time.time_ns())


async def _warn_of_store(settings: Settings) -> None:
    """What serves uploads goes on where the store cannot be used: it may only have to be mended. But it says so."""
    from datamon.stores.health import check_store

    checks = await asyncio.to_thread(lambda: list(check_store(settings.context(), time.time(), write=True)))
    for check in checks:
        if check.problem is not None:
            say(f"warning: {sentence(check.problem)}")


def _stop_event() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _announce(stack: Stack) -> None:
    say(f"Temporal  {stack.address}")
    say(f"Web UI    {stack.ui}")
    say(f"store     {stack.store}")


def _announce_metrics(settings: Settings) -> None:
    if settings.metrics:
        say(f"metrics   http://{settings.metrics}/metrics")


def _detached(settings: Settings, port: int | None, ui_port: int | None) -> Stack:
    """Start `datamon up` in a session of its own and wait until it is ready."""
    if is_stack_alive(settings.home):
        raise stack_exists(settings.home)
    command = [sys.executable, "-m", "datamon.starter.cli", "up"]
    command += ["--port", str(port)] if port else []
    command += ["--ui-port", str(ui_port)] if ui_port else []
    settings.home.mkdir(parents=True, exist_ok=True)
    log_path = settings.home / "up.log"
    environment = configuration.environment() | {"DATAMON_HOME": str(settings.home), "DATAMON_STORE": settings.store}
    for file in ("DATAMON_CONFIG", "TEMPORAL_CONFIG_FILE"):  # it is started in another folder
        if environment.get(file):
            environment[file] = str(Path(environment[file]).expanduser().absolute())
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=settings.home,
            env=environment,
        )
    try:
        return _until_up(settings, process, log_path)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _until_up(settings: Settings, process: subprocess.Popen[bytes], log_path: Path) -> Stack:
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        stack = running_stack(settings.home)
        if stack is not None:
            return stack
        if process.poll() is not None:
            click.echo("".join(log_path.read_text(errors="replace").strip().splitlines()[-1:]), err=True)
            raise click.exceptions.Exit(process.returncode or 1)
        time.sleep(0.05)
    process.terminate()
    raise Failed(f"the stack was not up within {DETACH_SECONDS} s; {log_path} may say why")


@click.command(cls=Command)
def down() -> None:
    """Stop what `datamon up` started. Open diamonds continue when it is started again.

    Example: datamon down
    """
    home = Settings.load().home
    pid = stack_pid(home)
    if pid is None:
        say(f"nothing runs from {home}")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while is_stack_alive(home):
        if time.monotonic() > deadline:
            raise Failed(f"process {pid} did not stop within {DOWN_SECONDS} s; {home / 'up.log'} may say why")
        time.sleep(0.05)
    say("stopped")


@click.command(cls=Command)
@click.option("--queue", "queues", multiple=True, help="Serve only this task queue, not `datamon` and this host's.")
def worker(queues: tuple[str, ...]) -> None:
    """Run a worker for a Temporal server elsewhere, until Ctrl-C or SIGTERM.

    Example: TEMPORAL_ADDRESS=temporal.example:7233 datamon worker
    """
    _listen_to_signals_early()
    asyncio.run(_worker(Settings.load(), list(queues)))


async def _worker(settings: Settings, queues: list[str]) -> None:
    from datamon.worker.connection.client import connect
    from datamon.worker.connection.queues import require_search_attributes
    from datamon.worker.service import serving
    from datamon.worker.telemetry import write_logs
    from datamon.workflows.common.names import queues_of

    stop = _stop_event()
    write_logs(settings)
    client = await connect(settings, for_worker=True)
    await require_search_attributes(client)
    queues = queues or queues_of(settings.host)
    async with serving(client, settings, queues):
        say(f"serving {' and '.join(queues)} at {client.service_client.config.target_host}")
        await _warn_of_store(settings)
        _announce_metrics(settings)
        with warm_server(settings.home):
            await stop.wait()


@click.command(cls=Command)
@one_format_option
def status(format: str) -> None:
    """Show which server and store are used, and whether they answer. Exits with 6 if one of them does not.

    Example: datamon status --format json
    """
    shown, problem = asyncio.run(_status(Settings.load()))
    print_one(shown, format)
    if problem is not None:
        raise problem


def _store_problem(settings: Settings) -> DatamonError | None:
    from datamon.stores.health import check_store

    checks = check_store(settings.context(), time.time(), write=False)
    return next((check.problem for check in checks if check.problem is not None), None)


async def _status(settings: Settings) -> tuple[dict[str, object], DatamonError | None]:
    from datamon.worker.connection.address import connect_options
    from datamon.worker.connection.client import connect
    from datamon.worker.connection.queues import has_worker
    from datamon.workflows.common.names import queues_of

    stack = running_stack(settings.home)
    address = connect_options(settings)["target_host"]
    store_problem = await asyncio.to_thread(_store_problem, settings)
    shown: dict[str, object] = {
        "address": address,
        "answers": True,
        "ui": stack.ui if stack and stack.address == address else None,
        "store": settings.store,
        "store_problem": str(store_problem) if store_problem is not None else None,
        "home": str(settings.home),
        "workers": {},
    }
    try:
        client = await connect(settings)
        shown["workers"] = {queue: await has_worker(client, queue) for queue in queues_of(settings.host)}
    except ServerUnreachable as error:
        return shown | {"answers": False}, error
    return shown, store_problem
