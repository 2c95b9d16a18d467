"""A split for clients: waiting for it, looking at it, stopping it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from datamon.activities.failures import from_failure
from datamon.activities.spark import Progress
from datamon.core.errors import NotFound, SplitFailed, WrongState
from datamon.core.ids import SplitId, checked_text
from datamon.diamonds.catalog import get_split
from datamon.diamonds.model import SplitState
from datamon.starter.attempts import Attempt, pending_attempts
from datamon.worker.connection.failures import is_gone, unreachable
from datamon.workflows.common.names import split_workflow
from datamon.workflows.diamonds.messages import SplitReport, SplitStatus
from datamon.workflows.diamonds.record import ADDED_AGAIN
from datamon.workflows.diamonds.split import SplitWorkflow

if TYPE_CHECKING:
    from datamon.starter.client import Datamon
    from datamon.starter.diamonds import Diamond


class Split:
    """A split, as a client sees it."""

    def __init__(self, datamon: Datamon, diamond: Diamond, split: SplitId, request: str | None = None) -> None:
        self._datamon, self._diamond, self.id, self._request = datamon, diamond, split, request

    @property
    def handle(self) -> WorkflowHandle[SplitWorkflow, SplitReport]:
        """The workflow of the newest generation."""
        workflow_id = split_workflow(self._diamond.repo, self._diamond.id, self.id)
        return self._datamon.client.get_workflow_handle_for(SplitWorkflow.run, workflow_id)

    async def result(self) -> SplitReport:
        """Wait for the end. Raises SplitFailed if the split failed."""
        try:
            await self._until_started()
        except WrongState:  # its diamond has ended, and Temporal has forgotten it
            stored = await self._stored_result()
            if stored is None:
                raise
            return stored
        try:
            return await self.handle.result()
        except RPCError as error:
            stored = await self._stored_result() if is_gone(error) else None
            if stored is None:
                raise await self._diamond.explained(error) from error
            return stored
        except WorkflowFailureError as error:
            known = await self._status()
            cause = from_failure(error)
            raise SplitFailed(self.id, known.reason or str(cause), cause.code, list(cause.args)) from error

    async def _stored_result(self) -> SplitReport | None:
        """How the split ended, as the store tells; None if it did not."""
        context, diamond = self._datamon.context, self._diamond
        try:
            split = await asyncio.to_thread(get_split, context, diamond.repo, diamond.id, self.id)
        except NotFound:
            return None
        if split.state is SplitState.FAILED:
            raise SplitFailed(self.id, split.reason)
        return (
            SplitReport(
                split.id,
                split.generation,
                split.state,
                split.files,
                split.bytes,
                split.stored,
                split.skipped,
                skipped_sample=split.skipped_sample,
            )
            if split.state is SplitState.DONE
            else None
        )

    async def progress(self) -> Progress | None:
        """How far the upload is, from its last heartbeat; None before the first one and after the end."""
        attempt = await self.attempt()
        return attempt.progress if attempt is not None else None

    async def attempt(self) -> Attempt | None:
        """What is under way: uploading, or writing the split's descriptor. None before that and after the end."""
        return next(iter(await pending_attempts(self._datamon.client, self.handle)), None)

    async def stop(self, reason: str = "stopped by its user") -> bool:
        """Ask the split to stop: it ends as failed, and can run again under its id. Returns whether a run was asked."""
        if not (await self._status()).started:  # what still runs under its id may be the generation before
            return False
        try:
            await self.handle.signal(SplitWorkflow.stop, checked_text("reason", reason))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise unreachable(self._datamon.client, error) from error
        return True

    async def _until_started(self) -> None:
        """A diamond starts a limited number of splits at once; the others have no workflow yet."""
        while True:
            status = await self._status()
            if not status.known:
                raise NotFound("split", self.id)
            if self._request is not None and status.request not in ("", self._request):
                raise SplitFailed(self.id, ADDED_AGAIN)
            if status.started:
                return
            if status.state is SplitState.FAILED:
                raise SplitFailed(self.id, status.reason)
            await asyncio.sleep(self._diamond.split_queries.pause)

    async def _status(self) -> SplitStatus:
        try:
            return await self._diamond.split_status(self.id)
        except RPCError as error:
            raise await self._diamond.explained(error) from error
