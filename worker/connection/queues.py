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
    return [poller.identity for poller in answer.pollers if not poller.identity.endswith(COMMAND_IDENTITY)]


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


async def require_worker(client: Client, *queues: str, patience: float = WORKER_SECONDS) -> None:
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


async def require_search_attributes(client: Client) -> None:
    """Fail with what to do, where the namespace lacks the search attributes that workflows set."""
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    wanted = SEARCH_ATTRIBUTES.items()
    missing = [f"--name {name} --type {kind}" for name, kind in wanted if name not in answer.custom_attributes]
    if missing:
        command = f"temporal operator search-attribute create {' '.join(missing)}"
        raise Failed(f"namespace {client.namespace!r} lacks search attributes; register them with `{command}`")
