"""Housekeeping for clients: a round at once, or one every week."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    WorkflowFailureError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from datamon.activities.failures import from_failure
from datamon.core.errors import BadUsage, NotFound, Remedy, WrongState
from datamon.starter.attempts import Attempt, pending_attempts
from datamon.worker.connection.failures import unreachable
from datamon.worker.connection.queues import require_worker
from datamon.workflows.common.names import HOUSEKEEPING, TASK_QUEUE
from datamon.workflows.housekeeping import HousekeepingInput, HousekeepingReport, HousekeepingWorkflow

if TYPE_CHECKING:
    from datamon.starter.client import Datamon

WEEKLY = "0 3 * * SUN"


@dataclass(frozen=True)
class Scheduled:
    """The rounds that are to come, and the last ones."""

    cron: str
    older_than_seconds: float
    abandoned_after_seconds: float
    next: list[str]
    last: list[str]


class Housekeeping:
    """Removing what is left of diamonds that ended long ago, in all repos of the store."""

    def __init__(self, datamon: Datamon) -> None:
        self._datamon = datamon

    async def run(
        self,
        older_than: timedelta = timedelta(days=7),
        abandoned_after: timedelta = timedelta(days=30),
        *,
        dry_run: bool = False,
    ) -> HousekeepingReport:
        """Run one round now. A dry run only reports what it would do."""
        client = self._datamon.client
        await require_worker(client, TASK_QUEUE)
        request = HousekeepingInput(older_than.total_seconds(), abandoned_after.total_seconds(), dry_run)
        try:
            return await client.execute_workflow(
                HousekeepingWorkflow.run,
                request,
                id=HOUSEKEEPING,
                task_queue=TASK_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                static_summary="housekeeping" + (", a dry run" if dry_run else ""),
            )
        except WorkflowAlreadyStartedError:
            raise WrongState("the workflow", HOUSEKEEPING, "running", "wait until that round has ended") from None
        except WorkflowFailureError as error:
            raise from_failure(error) from error
        except RPCError as error:
            raise unreachable(client, error) from error

    async def attempts(self) -> list[Attempt]:
        """What the round that is under way is doing now."""
        client = self._datamon.client
        return await pending_attempts(client, client.get_workflow_handle(HOUSEKEEPING))

    async def schedule(
        self,
        cron: str = WEEKLY,
        older_than: timedelta = timedelta(days=7),
        abandoned_after: timedelta = timedelta(days=30),
    ) -> Scheduled:
        """Schedule rounds, in place of any earlier schedule. No round starts while another is still running."""
        request = HousekeepingInput(older_than.total_seconds(), abandoned_after.total_seconds(), cron=cron)
        schedule = Schedule(
            action=ScheduleActionStartWorkflow(
                HousekeepingWorkflow.run, request, id=HOUSEKEEPING, task_queue=TASK_QUEUE, static_summary="housekeeping"
            ),
            spec=ScheduleSpec(cron_expressions=[cron]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(days=1)),
            state=ScheduleState(note="Removes what is left of diamonds that ended long ago"),
        )
        try:
            try:
                await self._datamon.client.create_schedule(HOUSEKEEPING, schedule)
            except ScheduleAlreadyRunningError:
                await self._handle.update(lambda _: ScheduleUpdate(schedule))
        except RPCError as error:
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                raise BadUsage(f"{cron!r} is not a schedule; write it as cron does, such as '{WEEKLY}'") from error
            raise unreachable(self._datamon.client, error) from error
        return await self.scheduled()

    async def scheduled(self) -> Scheduled:
        """The scheduled rounds. Raises NotFound if there are none."""
        try:
            description = await self._handle.describe()
        except RPCError as error:
            raise self._explained(error) from error
        action = description.schedule.action
        assert isinstance(action, ScheduleActionStartWorkflow)
        [request] = await self._datamon.client.data_converter.decode(list(action.args), [HousekeepingInput])
        return Scheduled(
            cron=request.cron,
            older_than_seconds=request.older_than_seconds,
            abandoned_after_seconds=request.silent_seconds,
            next=[time.isoformat() for time in description.info.next_action_times[:3]],
            last=[action.started_at.isoformat() for action in description.info.recent_actions[-3:]],
        )

    async def unschedule(self) -> None:
        """Remove the schedule."""
        try:
            await self._handle.delete()
        except RPCError as error:
            raise self._explained(error) from error

    @property
    def _handle(self) -> ScheduleHandle:
        return self._datamon.client.get_schedule_handle(HOUSEKEEPING)

    def _explained(self, error: RPCError) -> Exception:
        if error.status is RPCStatusCode.NOT_FOUND:
            return NotFound("schedule", HOUSEKEEPING, Remedy.SCHEDULE_HOUSEKEEPING)
        return unreachable(self._datamon.client, error)
