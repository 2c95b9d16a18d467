"""What all long-lived workflows have in common.

    open -> loop: wait for something to do, do one thing, describe -> end
              |
              +-- the history is long: wait until it is quiet, then continue as new with the same record

Handlers check messages and record them; the loop acts. So whatever arrives at the same time is handled one after the
other. A workflow defines its record (one dataclass: input, state, and what continue-as-new carries over) and the hooks
below. Everything else is here: native cancel, telling clients that wait to ask again, refused messages, details.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from datamon.activities.failures import from_failure, to_failure
from datamon.core.errors import BadUsage, DatamonError
from datamon.workflows.common.message_checks import storable_text
from datamon.workflows.common.options import Options
from datamon.workflows.common.refusals import Refusal
from datamon.workflows.common.retries import ShowsRetries
from datamon.workflows.common.running import complete_despite_cancel

ASK_AGAIN = "AskAgain"  # type of the failure that tells a waiting client to send its update once more


class Record(Protocol):
    """What the kit needs of a record."""

    options: Options
    rejected_message: Refusal | None  # the newest message that could not be understood

    def pack(self) -> Any:
        """The record as it travels to the next run of the workflow."""
        ...


R = TypeVar("R", bound=Record)


class LongLived(ShowsRetries, Generic[R]):
    """The life of a workflow. Subclasses fill in the hooks."""

    def __init__(self, record: R) -> None:
        super().__init__()
        self._record = record
        self._open_failure: DatamonError | None = None
        self._continuing = False  # about to continue as new: handlers that wait return
        self._ended = False  # the last state is published

    # Hooks

    def _is_open(self) -> bool:
        """Whether it has been opened, perhaps by an earlier run."""
        raise AssertionError

    async def _open(self) -> None:
        """Open it. An activity that fails ends the workflow, and whoever waits is told why."""
        raise AssertionError

    def _has_ended(self) -> bool:
        """Whether nothing more is to be done."""
        raise AssertionError

    def _has_work(self) -> bool:
        """Whether there is something to do now."""
        raise AssertionError

    async def _act(self) -> bool:
        """Do what cannot wait until the workflow has continued as new. Returns whether there was anything to do."""
        raise AssertionError

    async def _act_later(self) -> None:
        """Do what can wait until the workflow has continued as new."""

    async def _wait(self) -> None:
        """Wait until there is something to do."""
        await workflow.wait_condition(lambda: self._has_work() or self._is_long())

    def _is_quiet(self) -> bool:
        """Whether nobody is about to send anything, as far as this run can know."""
        return True

    def _cancel_natively(self, reason: str) -> None:
        """Take note that somebody pressed the Web UI's cancel button."""

    def _details(self) -> str:
        """What the Web UI shows."""
        raise AssertionError

    # The life

    async def _live(self) -> None:
        """Run from the beginning to the end, even if the workflow is cancelled meanwhile."""

        def on_cancel() -> None:
            self._cancel_natively(storable_text(workflow.cancellation_reason() or "canceled from Temporal"))

        await complete_despite_cancel(self._loop(), on_cancel)
        self._ended = True
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _loop(self) -> None:
        if not self._is_open():
            await self._open_or_fail()
        while not self._has_ended():
            await self._wait()
            if not await self._act():
                if self._is_long():
                    await self._continue_as_new_when_quiet()
                else:
                    await self._act_later()
            self._describe()

    async def _open_or_fail(self) -> None:
        try:
            await self._open()
        except ActivityError as error:
            self._open_failure = from_failure(error)
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise to_failure(self._open_failure) from error
        self._describe()

    def _describe(self) -> None:
        workflow.set_current_details(self._details())

    # Handlers

    @contextmanager
    def _checking_message(self) -> Iterator[None]:
        """Show a refused message in the workflow's details, because whoever sends a signal gets no answer."""
        try:
            yield
        except BadUsage as error:
            workflow.logger.warning("a message was refused: %s", error)
            self._record.rejected_message = Refusal.of("", error)
        self._describe()

    def _lets_go(self) -> bool:
        """Whether this run will not give an answer to handlers that wait for one."""
        return self._continuing or self._open_failure is not None

    def _raise_if_not_opened(self) -> None:
        if self._open_failure is not None:
            raise to_failure(self._open_failure)

    # Long lives

    def _is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()

    async def _continue_as_new_when_quiet(self) -> None:
        """Continue as new, after what runs has ended, if that is soon. Nothing else is started meanwhile.

        A run that receives something at the moment it continues must be replayed from its start and try again; with
        50 short splits reporting, it tried for 13 s.
        """
        with suppress(TimeoutError):  # state may change during the wait, so urgent work is looked for again below
            await workflow.wait_condition(
                lambda: self._is_quiet() or self._has_urgent_work(), timeout=self._record.options.quiet_seconds
            )
        if self._has_urgent_work():
            return
        self._continuing = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._record.pack())

    def _has_urgent_work(self) -> bool:
        """Whether something is to be done before the workflow continues as new."""
        return False


def ask_again() -> ApplicationError:
    """What tells a waiting client to send its update once more."""
    return ApplicationError("the workflow continues in a new run; ask again", type=ASK_AGAIN)


def raise_if_cancelled(*, canceled: bool) -> None:
    """End a workflow that was cancelled from the Web UI so that Temporal shows it as canceled."""
    if canceled and workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError
