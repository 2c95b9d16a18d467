"""DiamondWorkflow: owns one diamond from `initialized` to `done` or `canceled`.

Handlers check and record; the one loop in `_live` acts. So whatever arrives at the same time is handled one
after the other, and of two commits the second finds that there already is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

with workflow.unsafe.imports_passed_through():
    from activities.commit import BundleReport, CommitActivities, MakeBundle
    from activities.metadata import MetadataActivities
    from activities.wire import from_wire, to_wire
    from datamon.errors import DatamonError, NotFound, NothingToCommit, WrongState
    from datamon.ids import BundleId, SplitId, id_at, split_id
    from datamon.model import Diamond, DiamondState, SplitState, instant
    from workflows.details import describe
    from workflows.messages import (
        AddSplit,
        CancelRequest,
        CommitAnswer,
        CommitRequest,
        DiamondRecord,
        DiamondResult,
        DiamondStatus,
        Refusal,
        SplitInput,
        SplitReport,
        SplitRow,
        SplitStatus,
    )
    from workflows.names import SPLITS, STATE, TASK_QUEUE, attributes, split_workflow
    from workflows.split import SplitWorkflow
    from workflows.waiting import outlast_cancel

REFUSALS = 100  # refused adds that are remembered, for the clients that sent them
PAGE = 500  # splits in one answer of the query `splits`
_TERMINATED = "its workflow was terminated"
_Child = workflow.ChildWorkflowHandle[Any, SplitReport]
ASK_AGAIN = "AskAgain"  # type of the failure that tells a waiting client to send its update once more


@workflow.defn
class DiamondWorkflow:
    """Owns one diamond from `initialized` to `done` or `canceled`."""

    @workflow.init
    def __init__(self, record: DiamondRecord) -> None:
        self._record = record
        self._watched: set[asyncio.Task[None]] = set()
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
            await workflow.wait_condition(self._has_work)
            await self._stop_splits()
            if record.cancel is not None:
                await self._cancel(record.cancel)
            elif record.commit is not None and self._may_commit(record.commit):
                await self._commit(record.commit)
            elif self._is_long():
                await self._continue_as_new()
            else:
                await self._start_splits()
        self._ended = True
        return DiamondResult(record.state, record.answer)

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
            known = self._record.splits.get(split.split)
            if known is not None and known.request == split.request:
                continue
            try:
                self._check_add(split, known)
            except DatamonError as error:
                self._refuse(split, error)
            else:
                self._accept(split, known)
        self._describe()

    @workflow.update(description="Commit the done splits into one bundle, and answer with it.")
    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit, and wait for the outcome."""
        if not self._is_commit(request):
            self._accept_commit(request)
        await workflow.wait_condition(lambda: self._settled(request) or self._turning)
        answer, refusal = self._record.answer, self._record.failed_commit
        if answer is not None and answer.request == request.request:
            return answer
        if refusal is not None and refusal.request == request.request:
            raise to_wire(refusal.error())
        raise ApplicationError("the diamond continues in a new run; ask again", type=ASK_AGAIN)

    @commit.validator
    def _check_commit(self, request: CommitRequest) -> None:
        if not self._is_commit(request):
            self._refuse_commit(request)

    @workflow.signal(name="commit", description="Commit the done splits into one bundle; see `status` for the outcome.")
    def commit_signal(self, request: CommitRequest) -> None:
        """Commit, for callers that do not wait. What is refused is logged and changes nothing."""
        try:
            self._refuse_commit(request)
        except ApplicationError as error:
            workflow.logger.info("commit refused: %s", error.message)
        else:
            self._accept_commit(request)

    @workflow.update(description="Stop all splits and close the diamond without a bundle.")
    async def cancel(self, request: CancelRequest) -> DiamondStatus:
        """Cancel, and wait until the splits have stopped."""
        if not self._is_cancel(request):
            self._record.cancel = request
        await workflow.wait_condition(lambda: self._ended or self._turning)
        if self._turning:
            raise ApplicationError("the diamond continues in a new run; ask again", type=ASK_AGAIN)
        return self.status()

    @cancel.validator
    def _check_cancel(self, request: CancelRequest) -> None:
        if not self._is_cancel(request):
            self._refuse_unless_initialized("it cannot be canceled any more")

    @workflow.signal(name="cancel", description="Stop all splits and close the diamond without a bundle.")
    def cancel_signal(self, request: CancelRequest) -> None:
        """Cancel, for callers that do not wait."""
        if self._record.state is DiamondState.INITIALIZED and self._record.cancel is None:
            self._record.cancel = request

    @workflow.signal(description="A split has ended. Sent by SplitWorkflow.")
    def split_changed(self, report: SplitReport) -> None:
        """Take note of how a split ended. What is told by an older generation counts for nothing."""
        row = self._record.splits.get(report.split)
        if row is None or not row.open or row.generation != report.generation:
            return
        row.open, row.stop = False, ""
        if row.waiting is None:
            row.state, row.reason = report.state, report.reason
            row.files, row.bytes = report.files, report.bytes
        self._describe()

    @workflow.query(description="State, counts of splits, files and bytes.")
    def status(self) -> DiamondStatus:
        """The diamond in numbers."""
        record = self._record
        done = [row for row in record.splits.values() if row.state is SplitState.DONE]
        return DiamondStatus(
            repo=record.repo,
            diamond=record.diamond,
            state=record.state,
            created=record.created,
            splits={state: record.count(state) for state in SplitState},
            waiting=sum(row.waiting is not None for row in record.splits.values()),
            files=sum(row.files for row in done),
            bytes=sum(row.bytes for row in done),
            committing=record.commit is not None,
            reason=record.reason,
            bundle=record.bundle,
        )

    @workflow.query(description=f"A page of {PAGE} splits, in the order they were added; pages count from 0.")
    def splits(self, page: int = 0) -> list[SplitStatus]:
        """Some of the splits."""
        rows = sorted(self._record.splits.items(), key=lambda item: item[1].position)
        return [self.split(split) for split, _ in rows[page * PAGE : (page + 1) * PAGE]]

    @workflow.query(description="One split by its id, and why an add under that id was refused.")
    def split(self, split: SplitId) -> SplitStatus:
        """One split."""
        row, refused = self._record.splits.get(split), self._record.refused.get(split)
        if row is None:
            return SplitStatus(split, known=False, refused=refused)
        return SplitStatus(
            split=split,
            known=True,
            request=row.request,
            state=row.state,
            generation=row.generation,
            started=row.started,
            files=row.files,
            bytes=row.bytes,
            reason=row.reason,
            tag=row.tag,
            refused=refused,
        )

    # Adding

    def _check_add(self, add: AddSplit, known: SplitRow | None) -> None:
        split_id(add.split)
        if self._record.state is not DiamondState.INITIALIZED or self._record.cancel is not None:
            state = DiamondState.CANCELING if self._record.cancel is not None else self._record.state
            raise WrongState("diamond", self._record.diamond, state, "no split can be added any more")
        if known is None and add.must_exist:
            raise NotFound("split", add.split, "leave --split out to get an id, or choose one with --create")
        if known is not None and known.state is SplitState.DONE:
            raise WrongState("split", add.split, known.state, "it cannot run again; leave --split out to add a new one")

    def _accept(self, add: AddSplit, known: SplitRow | None) -> None:
        self._record.added += 1
        row = known or SplitRow(self._record.added, add.request, instant(workflow.time_ns()))
        row.position, row.request, row.waiting, row.tag = self._record.added, add.request, add, add.tag
        row.state, row.reason, row.started = SplitState.RUNNING, "", False
        if row.open:
            row.stop = "it was added again"
        self._record.splits[add.split] = row
        self._record.refused.pop(add.split, None)

    def _refuse(self, add: AddSplit, error: DatamonError) -> None:
        refused = self._record.refused
        refused.pop(add.split, None)
        refused[add.split] = Refusal.of(add.request, error)
        if len(refused) > REFUSALS:
            refused.pop(next(iter(refused)))
        workflow.logger.info("add of split %s refused: %s", add.split, error)

    # The loop's steps

    def _has_work(self) -> bool:
        record = self._record
        return (
            record.cancel is not None
            or (record.commit is not None and self._may_commit(record.commit))
            or bool(self._to_stop())
            or bool(self._to_start())
            or self._is_long()
        )

    def _to_start(self) -> list[tuple[SplitId, SplitRow]]:
        """The splits to start now: those added first, while there is room in the window."""
        room = self._record.options.window - sum(row.open for row in self._record.splits.values())
        waiting = [item for item in self._record.splits.items() if item[1].waiting is not None and not item[1].open]
        return sorted(waiting, key=lambda item: item[1].position)[: max(room, 0)]

    def _to_stop(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._record.splits.items() if row.open and row.stop]

    async def _start_splits(self) -> None:
        await asyncio.gather(*(self._start_split(split, row) for split, row in self._to_start()))

    async def _start_split(self, split: SplitId, row: SplitRow) -> None:
        """Start the next generation of a split, once the one before, which has told that it ended, is gone."""
        add = row.waiting
        if add is None:
            return
        row.generation, row.open, row.waiting = row.generation + 1, True, None
        for pause in (0.1, 0.2, 0.5, 1, 2, 5, 10):
            try:
                child = await self._start_child(split, row, add)
            except WorkflowAlreadyStartedError:
                await workflow.sleep(pause, summary=f"until the run before of split {split} is gone")
            else:
                row.started = row.waiting is None
                self._watched.add(asyncio.create_task(self._watch(split, row.generation, child)))
                return
        self._lost(split, row.generation, "a workflow with its id is still running")

    async def _start_child(self, split: SplitId, row: SplitRow, add: AddSplit) -> _Child:
        """It outlives this run of the diamond, hence ABANDON."""
        record = self._record
        return await workflow.start_child_workflow(
            SplitWorkflow.run,
            SplitInput(record.repo, record.diamond, add, row.generation, row.created, record.options),
            id=split_workflow(record.repo, record.diamond, split),
            task_queue=TASK_QUEUE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=attributes(record.repo, "split", SplitState.RUNNING),
            static_summary=f"split {add.tag or split} of {record.repo} from {add.host}",
            static_details=f"Uploads `{add.path}` into diamond {record.diamond}.",
        )

    async def _watch(self, split: SplitId, generation: int, child: _Child) -> None:
        """A split tells how it ended, but not when somebody terminates it. This run of the diamond sees that itself."""
        try:
            await child
        except ChildWorkflowError as error:
            terminated = isinstance(error.cause, TerminatedError)
            self._lost(split, generation, _TERMINATED if terminated else str(from_wire(error)))

    def _lost(self, split: SplitId, generation: int, why: str) -> None:
        self.split_changed(SplitReport(split, generation, SplitState.FAILED, reason=why))

    async def _stop_splits(self) -> None:
        """Tell splits to stop that are marked so."""
        marked = [(split, row, row.stop) for split, row in self._to_stop()]
        for _, row, _ in marked:
            row.stop = ""
        await asyncio.gather(*(self._stop_split(split, row, why) for split, row, why in marked))

    async def _stop_split(self, split: SplitId, row: SplitRow, why: str) -> None:
        workflow_id = split_workflow(self._record.repo, self._record.diamond, split)
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal(SplitWorkflow.stop, why)
        except ApplicationError:  # it has ended, and would have told so before it did
            self._lost(split, row.generation, _TERMINATED)

    async def _stop_all(self, why: str) -> None:
        """Stop every split that has not ended, and wait until they have."""
        for row in self._record.splits.values():
            if row.waiting is not None:
                row.waiting, row.state, row.reason = None, SplitState.FAILED, why
            if row.open:
                row.stop = why
        await self._stop_splits()
        await workflow.wait_condition(lambda: not any(row.open for row in self._record.splits.values()))

    # Opening, committing, canceling

    async def _open(self) -> None:
        record = self._record
        record.created = instant(workflow.time_ns())
        try:
            await self._metadata(MetadataActivities.open_diamond, self._descriptor(1), "diamond.yaml: initialized")
        except ActivityError as error:
            self._unopened = from_wire(error)
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise to_wire(self._unopened) from error
        record.revision = 1
        self._describe()

    def _refuse_unless_initialized(self, refused: str) -> None:
        record = self._record
        if record.state is not DiamondState.INITIALIZED:
            raise to_wire(WrongState("diamond", record.diamond, record.state, refused))
        if record.cancel is not None:
            raise to_wire(WrongState("diamond", record.diamond, DiamondState.CANCELING, refused))

    def _refuse_commit(self, request: CommitRequest) -> None:
        record = self._record
        if record.commit is not None and not record.state.ended:
            raise to_wire(WrongState("diamond", record.diamond, DiamondState.COMMITTING, "another commit was first"))
        self._refuse_unless_initialized("it cannot be committed any more")
        if not request.wait:
            lacking = self._lacking(request)
            if lacking is not None:
                raise to_wire(lacking)

    def _accept_commit(self, request: CommitRequest) -> None:
        self._record.commit = request
        self._describe()

    def _is_commit(self, request: CommitRequest) -> bool:
        """Whether this very request was accepted before, perhaps in an earlier run of this workflow."""
        return self._settled(request) or (
            self._record.commit is not None and self._record.commit.request == request.request
        )

    def _is_cancel(self, request: CancelRequest) -> bool:
        return self._record.cancel is not None and self._record.cancel.request == request.request

    def _settled(self, request: CommitRequest) -> bool:
        known = (self._record.answer, self._record.failed_commit)
        return any(outcome is not None and outcome.request == request.request for outcome in known)

    def _lacking(self, request: CommitRequest) -> NothingToCommit | None:
        record, needed = self._record, request.splits or 1
        done, running, failed = (record.count(s) for s in (SplitState.DONE, SplitState.RUNNING, SplitState.FAILED))
        return NothingToCommit(record.diamond, done, running, failed, needed) if done < needed else None

    def _may_commit(self, request: CommitRequest) -> bool:
        """Whether a commit need not wait: as many splits as it asked for have come, and none is running."""
        enough = len(self._record.splits) >= (request.splits or 1)
        return not request.wait or (enough and self._record.count(SplitState.RUNNING) == 0)

    async def _commit(self, request: CommitRequest) -> None:
        record = self._record
        lacking = self._lacking(request)
        if lacking is not None:
            self._commit_failed(request, lacking)
            return
        await self._move(DiamondState.COMMITTING)
        await self._stop_all("it was still running when the diamond was committed")
        try:
            answer = await self._make_bundle(request)
        except ActivityError as error:
            failure = from_wire(error)
            record.reason, record.bundle = str(failure), None
            await self._move(DiamondState.INITIALIZED)
            self._commit_failed(request, failure)
            return
        record.reason, record.bundle = "", answer.bundle
        await self._move(DiamondState.DONE)
        record.answer = answer
        self._describe()

    def _commit_failed(self, request: CommitRequest, error: DatamonError) -> None:
        self._record.failed_commit = Refusal.of(request.request, error)
        self._record.reason = str(error)
        self._record.commit = None
        self._describe()

    async def _make_bundle(self, request: CommitRequest) -> CommitAnswer:
        record, options = self._record, self._record.options
        bundle = BundleId(id_at(workflow.time(), workflow.random().randbytes(16)))
        left_out = record.left_out()
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
                splits=record.taken(),
                left_out=left_out,
            ),
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(days=options.spark_days),
            heartbeat_timeout=timedelta(seconds=options.heartbeat_seconds),
            retry_policy=options.retry,
            summary=f"merge {record.count(SplitState.DONE)} splits into bundle {bundle}",
        )
        return CommitAnswer(request.request, bundle, made.files, made.bytes, made.conflicts, left_out)

    async def _cancel(self, request: CancelRequest) -> None:
        record = self._record
        if record.commit is not None:
            refused = WrongState("diamond", record.diamond, DiamondState.CANCELING, "it was canceled before the commit")
            self._commit_failed(record.commit, refused)
        await self._move(DiamondState.CANCELING)
        await self._stop_all(request.reason)
        await self._move(DiamondState.CANCELED)

    def _cancel_natively(self) -> None:
        if self._record.state is DiamondState.INITIALIZED and self._record.cancel is None:
            self._record.cancel = CancelRequest(reason=workflow.cancellation_reason() or "canceled from Temporal")

    # Publishing

    async def _move(self, state: DiamondState) -> None:
        """Enter a state: in memory at once, so that handlers see it, then in the store and in the search attributes."""
        record = self._record
        record.state = record.state.advance(state, record.diamond)
        workflow.upsert_search_attributes([STATE.value_set(state), SPLITS.value_set(len(record.splits))])
        self._describe()
        await self._metadata(
            MetadataActivities.publish_diamond, self._descriptor(record.revision + 1), f"diamond.yaml: {state}"
        )
        record.revision += 1

    def _descriptor(self, revision: int) -> Diamond:
        record = self._record
        now = instant(workflow.time_ns())
        return Diamond(
            id=record.diamond,
            repo=record.repo,
            state=record.state,
            contributor=record.contributor,
            created=record.created,
            updated=now,
            revision=revision,
            tag=record.tag,
            mode=record.commit.mode if record.commit else None,
            ended=now if record.state.ended else None,
            bundle=record.bundle,
            splits={state: record.count(state) for state in SplitState},
            reason=record.reason,
        )

    async def _metadata(
        self, activity: Callable[[MetadataActivities, Diamond], None], descriptor: Diamond, summary: str
    ) -> None:
        await workflow.execute_activity_method(
            activity,
            descriptor,
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=self._record.options.metadata_seconds),
            retry_policy=self._record.options.retry,
            summary=summary,
        )

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
