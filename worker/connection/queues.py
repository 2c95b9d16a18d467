"""Who polls a task queue, and what a namespace must have."""

from __future__ import annotations

import asyncio
import os

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from datamon.core.errors import Failed, NoWorker
from datamon.worker.connection.failures import unreachable
from datamon.workflows.common.names import COMMAND_IDENTITY, SEARCH_ATTRIBUTES, TASK_QUEUE

WORKER_SECONDS = 2


async def has_worker(client: Client, queue: str) -> bool:
    """Whether a worker has recently polled a task queue, for the kind of task that the queue is for."""
    return bool(await _pollers(client, queue))


async def has_live_worker(client: Client, queue: str) -> bool:
    """The same without workers of this host whose process is gone, which the server remembers for minutes."""
    host = client.identity.partition("@")[2]
    try:
        return any(_may_live(identity, host) for identity in await _pollers(client, queue))
    except RPCError as error:
        raise unreachable(client, error) from error


async def _pollers(client: Client, queue: str) -> list[str]:
    """Who polls a queue. Commands that serve it for themselves do not count, because they may leave at any moment."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW if queue == TASK_QUEUE else TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    )
    return [poller.identity for poller in answer.pollers if not poller.identity.endswith(COMMAND_IDENTITY)]


def _may_live(identity: str, host: str) -> bool:
    """Whether the process that a poller names as `pid@host` may still run."""
    pid, _, its_host = identity.partition("@")
    if its_host != host or not pid.isdigit():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        return True
    return True


async def require_worker(client: Client, *queues: str, patience: float = WORKER_SECONDS) -> None:
    """Raise NoWorker if nobody would do the work, instead of waiting for ever. A worker may take a moment to start."""
    deadline = asyncio.get_running_loop().time() + patience
    try:
        for queue in queues:
            while not await has_worker(client, queue):
                if asyncio.get_running_loop().time() > deadline:
                    raise NoWorker(queue)
                await asyncio.sleep(0.05)
    except RPCError as error:
        raise unreachable(client, error) from error


async def require_search_attributes(client: Client) -> None:
    """Fail, and say what to do, if the namespace lacks search attributes that workflows set."""
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    wanted = SEARCH_ATTRIBUTES.items()
    missing = [f"--name {name} --type {kind}" for name, kind in wanted if name not in answer.custom_attributes]
    if missing:
        command = f"temporal operator search-attribute create {' '.join(missing)}"
        raise Failed(f"namespace {client.namespace!r} lacks search attributes; register them with `{command}`")
