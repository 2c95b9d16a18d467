"""Runs workflows as Temporal's SDK does, and reads them again if a query has left a state that no replay would have.

If a worker dies while a query is on its way to it, the server gives the query to another worker, with the history as it
is by then. That history may end in events that no workflow task has seen yet. The SDK lets the workflow act on them to
answer the query, keeps it in memory, and later continues from there. What it then tells the server differs from a
replay, in which these events come together with those that followed. A workflow that cannot be replayed is stuck for
good when its worker dies. See docs/internals/decisions/019.

Such a state shows by its numbers: events have come, but the size of the history, which every workflow task brings anew,
is still the old one. A workflow in this state may answer queries. Its next workflow task is failed without being run,
and so is a query that brings more events. The SDK then forgets the workflow, and reads it from its history when the
server gives out the task again or the client asks again.
"""

from __future__ import annotations

from collections.abc import Callable

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

from datamon.workflows.common.names import STALE_STATE

_PASSIVE = frozenset({"query_workflow", "remove_from_cache"})


class QuerySafeRunner(UnsandboxedWorkflowRunner):
    """Runs workflows without the sandbox, which takes a third of the CPU of a split."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """See WorkflowRunner."""
        instance = super().create_instance(det)
        instance.activate = _QuerySafe(instance.activate)  # type: ignore[method-assign]
        return instance


class _QuerySafe:
    def __init__(self, activate: Callable[[WorkflowActivation], WorkflowActivationCompletion]) -> None:
        self._activate = activate
        self._length = self._size = 0
        self._is_stale = False

    def __call__(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if all(job.WhichOneof("variant") in _PASSIVE for job in act.jobs):
            return self._activate(act)
        if self._is_stale:
            return _failed(act.run_id)
        no_task = self._size > 0 and act.history_size_bytes == self._size and act.history_length > self._length
        self._is_stale = no_task and not act.is_replaying
        self._length, self._size = act.history_length, act.history_size_bytes
        return self._activate(act)


def _failed(run_id: str) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=run_id)
    completion.failed.failure.message = STALE_STATE
    return completion
