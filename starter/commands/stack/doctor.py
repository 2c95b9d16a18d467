"""`datamon doctor`: everything that must be right, each with a tick or with what to do."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from datamon.core.errors import DatamonError, Failed, StoreRefused
from datamon.settings.settings import Settings
from datamon.settings.stack import is_stack_alive, running_stack
from datamon.starter.advice import sentence
from datamon.starter.commands.common.base import Command
from datamon.starter.output import amount, format_option, print_listing, uses_colours
from datamon.stores.health import check_store
from datamon.version import __version__

LITTLE_SPACE = 1 << 30  # bytes, with which an upload or Spark may soon fail


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at."""

    what: str
    ok: bool
    finding: str


@click.command(cls=Command)
@format_option
def doctor(format: str) -> None:
    """Check all that datamon needs: Java, disk, store, clock, server, workers. Exits with 1 if something is wrong.

    Example: datamon doctor
    """
    settings = Settings.load()
    diagnoses = asyncio.run(_collect(settings))
    print_listing(diagnoses, format, ("", "WHAT", "FINDING"), lambda one: (_mark(ok=one.ok), one.what, one.finding))
    wrong = sum(not one.ok for one in diagnoses)
    if wrong:
        raise click.exceptions.Exit(1)


def _mark(*, ok: bool) -> str:
    sign = "✓" if ok else "✗"
    return click.style(sign, fg="green" if ok else "red") if uses_colours(sys.stdout) else sign


async def _collect(settings: Settings) -> list[Diagnosis]:
    local = [*_versions(), _java(settings), *_disks(settings), _ports(settings)]
    store = await asyncio.to_thread(lambda: list(_store(settings)))
    return [*local, *store, *[one async for one in _server(settings)]]


def _versions() -> Iterator[Diagnosis]:
    yield Diagnosis("datamon", ok=True, finding=f"{__version__} on Python {platform.python_version()}")


def _java(settings: Settings) -> Diagnosis:
    from datamon.worker.java import java_home

    try:
        return Diagnosis("java", ok=True, finding=str(java_home(settings.home / "spark" / "java")))
    except (OSError, ImportError) as error:
        return Diagnosis("java", ok=False, finding=f"no Java for Spark: {error}; install Java 17 or newer")


def _disks(settings: Settings) -> Iterator[Diagnosis]:
    places = {"home": settings.home}
    if "://" not in settings.store:
        places["store"] = Path(settings.store)
    for name, path in places.items():
        existing = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        free = shutil.disk_usage(existing).free
        room = f"{amount(free)} free for the {name} at {path}"
        yield Diagnosis("disk", ok=free >= LITTLE_SPACE, finding=room if free >= LITTLE_SPACE else f"only {room}")


def _ports(settings: Settings) -> Diagnosis:
    """Ports that are taken stop nobody: `datamon up` takes others then, and says which."""
    from datamon.worker.server import PORT, UI_PORT, is_free

    stack = running_stack(settings.home)
    if stack is not None:
        return Diagnosis("ports", ok=True, finding=f"the stack of this home uses {stack.address} and {stack.ui}")
    taken = [str(port) for port in (PORT, UI_PORT) if not is_free(port)]
    finding = (
        f"{' and '.join(taken)} taken; `datamon up` will use others" if taken else f"{PORT} and {UI_PORT} are free"
    )
    return Diagnosis("ports", ok=True, finding=finding)


def _store(settings: Settings) -> Iterator[Diagnosis]:
    try:
        for check in check_store(settings.context(), time.time(), write=True):
            finding = check.finding if check.problem is None else sentence(check.problem)
            refused = check.what == "writes" and isinstance(check.problem, StoreRefused)
            if refused and not is_stack_alive(settings.home):
                note = f"you may not write, which is fine if a worker elsewhere may: {finding}"
                yield Diagnosis(check.what, ok=True, finding=note)
            else:
                yield Diagnosis(check.what, check.problem is None, finding)
    except DatamonError as error:
        yield Diagnosis("store", ok=False, finding=sentence(error))


async def _server(settings: Settings) -> AsyncIterator[Diagnosis]:
    from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

    from datamon.worker.connection.client import connect
    from datamon.worker.connection.queues import has_worker, require_search_attributes
    from datamon.workflows.common.names import queues_of

    try:
        client = await connect(settings)
    except DatamonError as error:
        yield Diagnosis("server", ok=False, finding=sentence(error))
        return
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    answers = f"Temporal {info.server_version} answers at {client.service_client.config.target_host}"
    yield Diagnosis("server", ok=True, finding=answers)
    try:
        await require_search_attributes(client)
        yield Diagnosis("namespace", ok=True, finding=f"{client.namespace} has the search attributes")
    except Failed as error:
        yield Diagnosis("namespace", ok=False, finding=sentence(error))
    for queue in queues_of(settings.host):
        served = await has_worker(client, queue)
        finding = f"a worker serves {queue}" if served else f"no worker serves {queue}; start one with `datamon worker`"
        yield Diagnosis("worker", served, finding)
