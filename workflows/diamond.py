"""DiamondWorkflow: owns one diamond from `initialized` to `done` or `canceled`.

Handlers check and record; the one loop in `_live` acts. So whatever arrives at the same time is handled one
after the other, and of two commits the second finds that there already is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.commit import BundleReport, CommitActivities, MakeBundle
    from activities.metadata import MetadataActivities
    from activities.wire import from_wire, to_wire, wire_errors
    from datamon.errors import DatamonError, WrongState
    from datamon.ids import BundleId, SplitId, id_at
    from datamon.model import Diamond, DiamondState, instant
    from workflows.details import describe
    from workflows.fleet import Fleet
    from workflows.messages import (
        AddSplit,
        CancelRequest,
        CommitAnswer,
        CommitRequest,
        DiamondResult,
        DiamondStatus,
        SplitReport,
        SplitStatus,
    )
    from workflows.names import SPLITS, STATE, TASK_QUEUE
    from workflows.record import DiamondRecord
    from workflows.waiting import outlast_cancel

PAGE = 500  # splits in one answer of the query `splits`
ASK_AGAIN = "AskAgain"  # type of the failure that tells a waiting client to send its update once more


@workflow.defn
class DiamondWorkflow:
    """Owns one diamond from `initialized` to `done` or `canceled`."""

    @workflow.init
    def __init__(self, record: DiamondRecord) -> None:
        self._record = record
        self._fleet = Fleet(record)
        self._unopened: DatamonError | None = None
        self._turning = False  # about to continue as new: handlers that wait let go
        self._ended = False  # the last state is published

    @workflow.run
    async def run(self, record: DiamondRecord) -> DiamondResult:
        """The story of a diamond. The Web UI's cancel button tells it the same way as the message `cancel`."""
        result = await outlast_cancel(self._live(), on_cancel=self._cancel_natively)
        await workflow.wait_condition(workflow.all_handlers_finished)
        if workflow.cancellation_reason() is not None and result.state is DiamondState.CANCELED:
            raise asyncio.CancelledError
        return result

    async def _live(self) -> DiamondResult:
        record = self._record
        if record.revision == 0:
            await self._open()
        while not record.state.ended:
            await self._until_work()
            await self._fleet.stop()
            if record.cancel is not None:
                await self._cancel(record.cancel)
            elif record.commit is not None and record.may_commit():
                await self._commit(record.commit)
            elif self._is_long():
                await self._continue_as_new()
            else:
                await self._fleet.start()
            self._describe()
        self._ended = True
        return DiamondResult(record.state, record.answer)

    async def _until_work(self) -> None:
        """Wait for something to do, and meanwhile look now and then whether splits of earlier runs are still there."""
        while self._fleet.has_unwatched:
            try:
                await workflow.wait_condition(self._has_work, timeout=self._record.options.probe_seconds)
            except TimeoutError:
                await self._fleet.probe()
            else:
                return
        await workflow.wait_condition(self._has_work)

    def _has_work(self) -> bool:
        return self._record.cancel is not None or self._record.may_commit() or self._fleet.has_work() or self._is_long()

    # What people and splits say to it

    @workflow.update(description="Answers once the diamond is open. Sent together with the start.")
    async def initialized(self) -> DiamondStatus:
        """Wait until diamond.yaml is there."""
        await workflow.wait_condition(lambda: self._record.revision > 0 or self._unopened is not None)
        if self._unopened is not None:
            raise to_wire(self._unopened)
        return self.status()

    @workflow.signal(description="Add splits, a list of AddSplit. The same request twice counts once.")
    def add(self, splits: list[AddSplit]) -> None:
        """Accept or refuse splits. Ask the query `split` which it was."""
        for split in splits:
            refused = self._record.add(split, instant(workflow.time_ns()))
            if refused is not None:
                workflow.logger.info("add of split %s refused: %s", split.split, refused)
        self._describe()

    @workflow.signal(description="A split has ended. Sent by SplitWorkflow.")
    def split_changed(self, report: SplitReport) -> None:
        """Take note of how a split ended."""
        self._record.report(report)
        self._describe()

    @workflow.update(description="Commit the done splits into one bundle, and answer with it.")
    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit, and wait for the outcome."""
        if not self._record.knows_commit(request):
            self._record.accept_commit(request)
            self._describe()
        await workflow.wait_condition(lambda: self._record.has_answer(request) or self._turning)
        answer, failed = self._record.answer, self._record.failed_commits.get(request.request)
        if failed is not None:
            raise to_wire(failed.error())
        if answer is not None and answer.request == request.request:
            return answer
        raise _ask_again()

    @commit.validator
    def _check_commit(self, request: CommitRequest) -> None:
        if not self._record.knows_commit(request):
            with wire_errors():
                self._record.check_commit(request)

    @workflow.signal(name="commit", description="Commit the done splits into one bundle; see `status` for the outcome.")
    def commit_signal(self, request: CommitRequest) -> None:
        """Commit, for callers that do not wait. What is refused is logged and changes nothing."""
        try:
            self._record.check_commit(request)
        except DatamonError as error:
            workflow.logger.info("commit refused: %s", error)
        else:
            self._record.accept_commit(request)
            self._describe()

    @workflow.update(description="Stop all splits and close the diamond without a bundle.")
    async def cancel(self, request: CancelRequest) -> DiamondStatus:
        """Cancel, and wait until the splits have stopped."""
        if not self._is_cancel(request):
            self._record.cancel = request
        await workflow.wait_condition(lambda: self._ended or self._turning)
        if self._turning:
            raise _ask_again()
        return self.status()

    @cancel.validator
    def _check_cancel(self, request: CancelRequest) -> None:
        if not self._is_cancel(request):
            with wire_errors():
                self._record.check_open("it cannot be canceled any more")

    @workflow.signal(name="cancel", description="Stop all splits and close the diamond without a bundle.")
    def cancel_signal(self, request: CancelRequest) -> None:
        """Cancel, for callers that do not wait. During a commit it waits, and counts if that comes to nothing."""
        if not self._record.state.ended and self._record.cancel is None:
            self._record.cancel = request

    @workflow.query(description="State, counts of splits, files and bytes.")
    def status(self) -> DiamondStatus:
        """The diamond in numbers."""
        return self._record.status()

    @workflow.query(description=f"A page of {PAGE} splits, in the order they were added; pages count from 0.")
    def splits(self, page: int = 0) -> list[SplitStatus]:
        """Some of the splits."""
        return [self._record.split(split) for split, _ in self._record.in_line()[page * PAGE : (page + 1) * PAGE]]

    @workflow.query(description="One split by its id, and why an add under that id was refused.")
    def split(self, split: SplitId) -> SplitStatus:
        """One split."""
        return self._record.split(split)

    # Opening, committing, canceling

    async def _open(self) -> None:
        self._record.created = instant(workflow.time_ns())
        try:
            await self._publish(MetadataActivities.open_diamond)
        except ActivityError as error:
            self._unopened = from_wire(error)
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise to_wire(self._unopened) from error
        self._describe()

    async def _commit(self, request: CommitRequest) -> None:
        """Stop what still runs, then take a snapshot: so no split can become done that the bundle lacks."""
        record = self._record
        try:
            record.check_enough(request)
        except DatamonError as error:
            record.fail_commit(request, error)
            return
        await self._move(DiamondState.COMMITTING)
        await self._fleet.stop_all("it was still running when the diamond was committed")
        try:
            answer = await self._make_bundle(request)
        except ActivityError as error:
            failure = from_wire(error)
            record.reason = str(failure)
            await self._move(DiamondState.INITIALIZED)
            record.fail_commit(request, failure)
            return
        record.reason, record.bundle = "", answer.bundle
        await self._move(DiamondState.DONE)
        record.answer = answer

    async def _make_bundle(self, request: CommitRequest) -> CommitAnswer:
        record, options = self._record, self._record.options
        bundle = BundleId(id_at(workflow.time(), workflow.random().randbytes(16)))
        taken, left_out = record.taken(), record.left_out()
        made: BundleReport = await workflow.execute_activity_method(
            CommitActivities.make_bundle,
            MakeBundle(
                repo=record.repo,
                diamond=record.diamond,
                bundle=bundle,
                message=request.message,
                created=instant(workflow.time_ns()),
                mode=request.mode,
                order=request.order,
                splits=taken,
                left_out=left_out,
            ),
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(days=options.spark_days),
            heartbeat_timeout=timedelta(seconds=options.heartbeat_seconds),
            retry_policy=options.retry,
            summary=f"merge {len(taken)} splits into bundle {bundle}",
        )
        return CommitAnswer(request.request, bundle, made.files, made.bytes, made.conflicts, left_out)

    async def _cancel(self, request: CancelRequest) -> None:
        record = self._record
        if record.commit is not None:
            refused = WrongState("diamond", record.diamond, DiamondState.CANCELING, "it was canceled before the commit")
            record.fail_commit(record.commit, refused)
        await self._move(DiamondState.CANCELING)
        await self._fleet.stop_all(request.reason)
        await self._move(DiamondState.CANCELED)

    def _is_cancel(self, request: CancelRequest) -> bool:
        return self._record.cancel is not None and self._record.cancel.request == request.request

    def _cancel_natively(self) -> None:
        self.cancel_signal(CancelRequest(reason=workflow.cancellation_reason() or "canceled from Temporal"))

    # Publishing

    async def _move(self, state: DiamondState) -> None:
        """Enter a state: in memory at once, so that handlers see it, then in the store and in the search attributes."""
        record = self._record
        record.state = record.state.advance(state, record.diamond)
        workflow.upsert_search_attributes([STATE.value_set(state), SPLITS.value_set(len(record.splits))])
        self._describe()
        await self._publish(MetadataActivities.publish_diamond)

    async def _publish(self, activity: Callable[[MetadataActivities, Diamond], None]) -> None:
        await workflow.execute_activity_method(
            activity,
            self._record.descriptor(instant(workflow.time_ns())),
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=self._record.options.metadata_seconds),
            retry_policy=self._record.options.retry,
            summary=f"diamond.yaml: {self._record.state}",
        )
        self._record.revision += 1

    def _describe(self) -> None:
        workflow.set_current_details(describe(self._record))

    # Long lives

    def _is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()

    async def _continue_as_new(self) -> None:
        """Go on in a new run with the same record. Waiting clients are told to ask again; nothing is lost."""
        self._turning = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._record)


def _ask_again() -> ApplicationError:
    return ApplicationError("the diamond continues in a new run; ask again", type=ASK_AGAIN)
