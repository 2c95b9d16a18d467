"""The client of a Temporal server."""

from __future__ import annotations

import asyncio

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from datamon.core.errors import ServerUnreachable
from datamon.settings.settings import Settings
from datamon.worker.connection.address import connect_options, options_at
from datamon.worker.connection.encryption import converter
from datamon.worker.connection.failures import short_reason, unreachable
from datamon.worker.connection.queues import has_worker
from datamon.worker.telemetry import interceptors, runtime
from datamon.workflows.common.names import TASK_QUEUE

CONNECT_SECONDS = 5


async def connect(settings: Settings, *, for_worker: bool = False, address: str = "") -> Client:
    """A client of the server that these settings lead to, or of the one at an address. Workers serve metrics."""
    config = options_at(address, settings) if address else connect_options(settings)
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
        raise ServerUnreachable(config["target_host"], short_reason(error)) from error


async def answers(address: str) -> bool:
    """Whether a Temporal server answers at an address, with the default namespace there."""
    try:
        client = await asyncio.wait_for(Client.connect(address, runtime=runtime()), CONNECT_SECONDS)
        await has_worker(client, TASK_QUEUE)
    except (RuntimeError, RPCError, TimeoutError):
        return False
    return True


async def server_id(client: Client) -> str:
    """What tells this server and namespace from every other, even from one that is set up anew in its place."""
    try:
        answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        raise unreachable(client, error) from error
    return answer.namespace_info.id
