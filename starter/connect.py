"""Finding and reaching the Temporal server.

In this order: TEMPORAL_ADDRESS or TEMPORAL_PROFILE in the environment; the stack that `datamon up` runs from
DATAMON_HOME; the default profile of temporal.toml; localhost:7233. TLS, API keys and namespaces come from
Temporal's own environment variables and profiles.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.envconfig import ClientConfig, ClientConfigProfile
from temporalio.service import RPCError, RPCStatusCode

from datamon.errors import BadUsage, DatamonError, Failed, NoWorker, ServerUnreachable
from datamon.settings import Settings, running_stack
from starter.encryption import VARIABLE, converter
from worker.telemetry import interceptors, runtime
from workflows.names import ASTRAY, PASSING, SEARCH_ATTRIBUTES, TASK_QUEUE

CONNECT_SECONDS = 5
WORKER_SECONDS = 2
BUSY_SECONDS = 60  # a server that is still too busy then will not be less so soon

Answer = TypeVar("Answer")


def target(settings: Settings) -> dict[str, Any]:
    """What `Client.connect` is to be called with."""
    told = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    try:
        config: dict[str, Any] = dict(
            ClientConfig.load_client_connect_config(override_env_vars=told | dict(settings.temporal))
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise BadUsage(f"Temporal's configuration cannot be used: {error}") from error
    stack = running_stack(settings.home)
    if stack is not None and not is_told_where(settings):
        return _at(stack.address, settings)
    config.setdefault("target_host", "localhost:7233")
    return config | _at(config["target_host"], settings)


def _at(address: str, settings: Settings) -> dict[str, Any]:
    return {"target_host": address, "identity": f"{os.getpid()}@{settings.host}"}


@dataclass(frozen=True)
class Profile:
    """What a profile of Temporal's own configuration file says of itself."""

    source: str
    says: frozenset[str]


def of_profile(settings: Settings) -> Profile:
    """The profile that counts, without what variables say."""
    name = settings.temporal.get("TEMPORAL_PROFILE")
    file = settings.temporal.get("TEMPORAL_CONFIG_FILE")
    try:
        found = ClientConfigProfile.load(name, config_source=Path(file) if file else None, disable_env=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadUsage(f"Temporal's configuration cannot be used: {error}") from error
    told = {field for field in ("address", "namespace", "api_key", "tls") if getattr(found, field)}
    told |= {"tls"} if found.api_key else set()  # with a key, it is the default
    return Profile(f"profile {name or 'default'} of {file or 'temporal.toml'}", frozenset(told))


def is_told_where(settings: Settings) -> bool:
    """Whether somebody chose a server, so that the embedded one does not count."""
    return bool(settings.temporal.get("TEMPORAL_ADDRESS") or settings.temporal.get("TEMPORAL_PROFILE"))


async def connect(settings: Settings, *, for_worker: bool = False, address: str = "") -> Client:
    """A client of the server that these settings lead to, or of the one at an address. Workers serve metrics."""
    config = _at(address, settings) if address else target(settings)
    config["interceptors"] = interceptors(settings)
    config["data_converter"] = converter(settings.encryption_key, for_worker=for_worker)
    config["runtime"] = runtime(settings.metrics if for_worker else "")
    try:
        client = await asyncio.wait_for(Client.connect(**config), CONNECT_SECONDS)
        await has_worker(client, TASK_QUEUE)  # the first call that needs the namespace
        return client
    except TimeoutError:
        raise ServerUnreachable(config["target_host"]) from None
    except (RuntimeError, RPCError) as error:
        raise ServerUnreachable(config["target_host"], gist(error)) from error


async def answers(address: str) -> bool:
    """Whether a Temporal server answers at an address, with the default namespace there."""
    try:
        client = await asyncio.wait_for(Client.connect(address, runtime=runtime()), CONNECT_SECONDS)
        await has_worker(client, TASK_QUEUE)
    except (RuntimeError, RPCError, TimeoutError):
        return False
    return True


async def has_worker(client: Client, queue: str) -> bool:
    """Whether a worker has polled a task queue of late, for the kind of task that it is for."""
    return bool(await _pollers(client, queue))


async def has_live_worker(client: Client, queue: str) -> bool:
    """The same, but leaving out those of this host whose process is gone: the server remembers them for minutes."""
    host = client.identity.partition("@")[2]
    try:
        return any(_may_live(identity, host) for identity in await _pollers(client, queue))
    except RPCError as error:
        raise unreachable(client, error) from error


async def _pollers(client: Client, queue: str) -> list[str]:
    """Who polls a queue. Commands that serve it for themselves are no help to others: they leave any moment."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW if queue == TASK_QUEUE else TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    )
    return [poller.identity for poller in answer.pollers if not poller.identity.endswith(PASSING)]


def _may_live(identity: str, host: str) -> bool:
    """Whether the process that a poller says it is, `pid@host`, can still be there."""
    pid, _, its_host = identity.partition("@")
    if its_host != host or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and somebody else's
        return True
    return True


async def need_worker(client: Client, *queues: str, patience: float = WORKER_SECONDS) -> None:
    """NoWorker, rather than waiting for ever, where nobody would do the work. One that is just starting may come."""
    deadline = asyncio.get_running_loop().time() + patience
    try:
        for queue in queues:
            while not await has_worker(client, queue):
                if asyncio.get_running_loop().time() > deadline:
                    raise NoWorker(queue)
                await asyncio.sleep(0.05)
    except RPCError as error:
        raise unreachable(client, error) from error


async def server_id(client: Client) -> str:
    """What tells this server and namespace from every other, also from one that was set up anew in its place."""
    try:
        found = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        raise unreachable(client, error) from error
    return found.namespace_info.id


async def patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again, for a while, where the server is too busy to take a question, or the worker bids us to."""
    pause, deadline = 0.1, time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return await ask()
        except RPCError as error:
            if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED or time.monotonic() > deadline:
                raise
        except WorkflowQueryFailedError as error:
            if ASTRAY not in str(error) or time.monotonic() > deadline:
                raise Failed(f"the workflow could not answer: {error}") from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, 2)


def unreachable(client: Client, error: RPCError) -> DatamonError:
    """What to say of a call that did not get through."""
    if "workflow task in failed state" in str(error).lower():
        hint = f"its log says why; are its version and {VARIABLE} the same as here?"
        return Failed(f"the worker cannot go on with this workflow; {hint}")
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
        return ServerUnreachable(client.service_client.config.target_host, f"it is too busy: {error}")
    return ServerUnreachable(client.service_client.config.target_host, gist(error))


async def need_search_attributes(client: Client) -> None:
    """Fail with what to do, where the namespace lacks the search attributes that workflows set."""
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    wanted = SEARCH_ATTRIBUTES.items()
    missing = [f"--name {name} --type {kind}" for name, kind in wanted if name not in answer.custom_attributes]
    if missing:
        command = f"temporal operator search-attribute create {' '.join(missing)}"
        raise Failed(f"namespace {client.namespace!r} lacks search attributes; register them with `{command}`")


def gist(error: Exception) -> str:
    """What a network error comes down to."""
    text = str(error).lower()
    return next((known for known in ("connection refused", "dns error", "certificate") if known in text), text)
