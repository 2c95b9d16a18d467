"""DiamondWorkflow: owns one diamond from `initialized` to `done` or `canceled`.

Handlers check and record; the one loop in `_live` acts. So whatever arrives at the same time is handled one
after the other, and of two commits the second finds that there already is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.commit import BundleReport, CommitActivities, GiveUpBundle, MakeBundle
    from activities.metadata import MetadataActivities
    from activities.recovery import RecoveryActivities, TakenUp, TakeUp
    from activities.wire import from_wire, to_wire, wire_errors
    from datamon.errors import BadUsage, ConflictsForbidden, DatamonError, StoreRefused, WrongState
    from datamon.ids import BundleId, SplitId, id_at, label_name
    from datamon.model import Contributor, Diamond, DiamondState, Label, instant
    from workflows.counting import count_commit
    from workflows.details import describe
    from workflows.fleet import Fleet
    from workflows.hearing import check_values, checks_messages, heard, readable
    from workflows.messages import (
        AddSplit,
        CancelRequest,
        CommitAnswer,
        CommitOutcome,
        CommitRequest,
        DiamondResult,
        DiamondStatus,
        Refusal,
        SplitReport,
        SplitStatus,
    )
    from workflows.names import SPLITS, STATE, TASK_QUEUE
    from workflows.record import DiamondRecord
    from workflows.waiting import outlast_cancel, quickly

PAGE = 500  # splits in one message or answer; a payload ends at 2 MiB
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
            await self._open_or_fail()
        while not record.state.ended:
            await self._until_work()
            await self._fleet.stop()
            if record.cancel is not None:
                await self._cancel(record.cancel)
            elif record.commit is not None and record.may_commit():
                await self._commit(record.commit)
            elif self._is_long():
                await self._continue_as_new_when_quiet()
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
        await workflow.wait_condition(lambda: self._is_open() or self._unopened is not None)
        self._raise_if_unopened()
        return self.status()

    def _is_open(self) -> bool:
        return self._record.revision > 0 and not self._record.recovering

    @workflow.signal(
        description='Add splits: [{"path": "/data/part1", "host": "node-1"}], or [{"path": "s3://bucket/part1"}].'
    )
    def add(self, splits: Any = None) -> None:
        """Accept or refuse splits. Ask the query `split` which it was. The same request twice counts once."""
        with self._listening():
            if not isinstance(splits, list) and not checks_messages():
                return  # as it was before messages were read with care
            told = splits if isinstance(splits, list) else [splits]
            if len(told) > PAGE and checks_messages():
                raise BadUsage(f"one message adds at most {PAGE} splits, and this one has {len(told):,}")
            for split in [self._record.completed(heard(AddSplit, one), _new_id) for one in told]:
                refused = self._record.add(split, instant(workflow.time_ns()))
                if refused is not None:
                    workflow.logger.info("add of split %s refused: %s", split.split, refused)

    @workflow.signal(description="A split has ended. Sent by SplitWorkflow.")
    def split_changed(self, told: Any = None) -> None:
        """Take note of how a split ended."""
        with self._listening():
            self._record.report(heard(SplitReport, told), instant(workflow.time_ns()))

    @workflow.update(description='Commit the done splits into one bundle, and answer with it: {"message": "March"}.')
    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit, and wait for the outcome."""
        request = _named(request)
        if not self._record.knows_commit(request):
            self._record.accept_commit(request)
            self._describe()
        await workflow.wait_condition(lambda: self._record.has_answer(request) or self._lets_go())
        self._raise_if_unopened()
        answer, failed = self._record.answer, self._record.failed_commits.get(request.request)
        if failed is not None:
            raise to_wire(failed.error())
        if answer is not None and answer.request == request.request:
            return answer
        raise _ask_again()

    @commit.validator
    def _check_commit(self, request: CommitRequest) -> None:
        if not request.request or not self._record.knows_commit(request):
            with wire_errors():
                self._record.check_commit(check_values(request))

    @workflow.signal(
        name="commit",
        description='Commit the done splits into one bundle: {"message": "March"}. See `status` for the outcome.',
    )
    def commit_signal(self, told: Any = None) -> None:
        """Commit, for callers that do not wait. What is refused changes nothing; the query `commit` tells why."""
        with self._listening():
            request = _named(heard(CommitRequest, told))
            if self._record.is_under_way(request):
                return
            try:
                self._record.check_commit(request)
            except DatamonError as error:
                self._record.refuse_commit(request, error)
                workflow.logger.info("commit refused: %s", error)
            else:
                self._record.accept_commit(request)

    @workflow.update(description='Stop all splits and close the diamond without a bundle: {"reason": "a mistake"}.')
    async def cancel(self, request: CancelRequest) -> DiamondStatus:
        """Cancel, and wait until the splits have stopped."""
        if not self._is_cancel(request):
            self._record.cancel = request
        await workflow.wait_condition(lambda: self._ended or self._lets_go())
        self._raise_if_unopened()
        if self._turning:
            raise _ask_again()
        return self.status()

    @cancel.validator
    def _check_cancel(self, request: CancelRequest) -> None:
        if not self._is_cancel(request):
            with wire_errors():
                check_values(request)
                self._record.check_open("it cannot be canceled any more")

    @workflow.signal(
        name="cancel", description='Stop all splits and close the diamond without a bundle: {"reason": "a mistake"}.'
    )
    def cancel_signal(self, told: Any = None) -> None:
        """Cancel, for callers that do not wait. During a commit it waits, and counts if that comes to nothing."""
        with self._listening():
            if told is None and not checks_messages():
                return  # as it was before messages were read with care
            request = CancelRequest() if told is None else heard(CancelRequest, told)
            if not self._record.state.ended and self._record.cancel is None:
                self._record.cancel = request

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Whoever sends a signal gets no answer, so that it was not understood is shown with the diamond."""
        try:
            yield
        except BadUsage as error:
            workflow.logger.warning("a message was refused: %s", error)
            self._record.misheard = Refusal.of("", error)
        self._describe()

    def _lets_go(self) -> bool:
        """Whether those who wait for an answer wait in vain, in this run."""
        return self._turning or self._unopened is not None

    def _raise_if_unopened(self) -> None:
        if self._unopened is not None:
            raise to_wire(self._unopened)

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

    @workflow.query(description=f"Some splits by their ids, at most {PAGE}.")
    def look_up(self, splits: list[SplitId]) -> list[SplitStatus]:
        """Some of the splits."""
        return [self._record.split(split) for split in splits[:PAGE]]

    @workflow.query(name="commit", description="What became of a commit, by its request.")
    def commit_outcome(self, request: str) -> CommitOutcome:
        """What a commit that was sent as a signal came to."""
        return self._record.outcome(request)

    # Opening, committing, canceling

    async def _open_or_fail(self) -> None:
        try:
            if self._record.recovering:
                await self._take_up()
            else:
                self._record.created = instant(workflow.time_ns())
                await self._publish(MetadataActivities.open_diamond)
        except ActivityError as error:
            self._unopened = from_wire(error)
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise to_wire(self._unopened) from error
        self._describe()

    async def _take_up(self) -> None:
        """Go on from what the store says. The next revision of diamond.yaml shuts out whoever went before."""
        record, options = self._record, self._record.options
        why = "it was running when the diamond was recovered"
        found: TakenUp = await workflow.execute_activity_method(
            RecoveryActivities.take_up,
            TakeUp(record.repo, record.diamond, instant(workflow.time_ns()), why, _new_id()),
            task_queue=TASK_QUEUE,
            start_to_close_timeout=timedelta(days=options.spark_days),
            heartbeat_timeout=timedelta(seconds=options.metadata_seconds),
            retry_policy=options.retry,
            summary="what the store says",
        )
        record.restore(found)
        if record.answer is not None:
            if found.diamond.label:
                unlabeled = await self._set_label(found.diamond.label, record.contributor, record.answer.bundle)
                record.answer = replace(record.answer, label=found.diamond.label, unlabeled=unlabeled)
                record.reason = unlabeled
            await self._move(DiamondState.DONE)
        elif record.state is DiamondState.COMMITTING:
            record.reason = "its commit was lost; commit it again"
            await self._move(DiamondState.INITIALIZED)
        else:
            await self._publish(MetadataActivities.publish_diamond)
        record.recovering = False
        await self._fleet.dismiss([split.id for split in found.splits if split.stopped], why)

    async def _commit(self, request: CommitRequest) -> None:
        """Stop what still runs, then take a snapshot: so no split can become done that the bundle lacks."""
        record = self._record
        try:
            record.check_enough(request)
        except DatamonError as error:
            record.fail_commit(request, error)
            return
        accepted = workflow.now()
        record.making = BundleId(_new_id()) if workflow.patched("commits-name-their-bundle") else None
        try:
            await self._move(DiamondState.COMMITTING)
        except ActivityError as error:
            self._undo_committing(request, from_wire(error))
            return
        await self._fleet.stop_all("it was still running when the diamond was committed")
        bundle = record.making or BundleId(_new_id())
        try:
            made = await self._make_bundle(request, bundle)
        except ActivityError as error:
            failure = from_wire(error)
            if isinstance(failure, StoreRefused):  # what follows may have to wait until somebody renews credentials
                record.fail_commit(request, failure)
                self._describe()
            given_up = await self._give_up(bundle, failure)
            if given_up is None:
                record.reason, record.making = str(failure), None
                await self._move(DiamondState.INITIALIZED)
                if not record.has_answer(request):
                    record.fail_commit(request, failure)
                return
            made = given_up
            record.failed_commits.pop(request.request, None)
            record.commit = request
        answer = CommitAnswer(
            request.request, bundle, made.files, made.bytes, made.conflicts, record.left_out(), request.label
        )
        if request.label:
            who = request.contributor or record.contributor
            answer = replace(answer, unlabeled=await self._set_label(request.label, who, bundle))
        record.reason, record.bundle, record.making = answer.unlabeled, bundle, None
        await self._move(DiamondState.DONE)
        count_commit(record.repo, workflow.now() - accepted, made.conflicts)
        record.answer = answer

    def _undo_committing(self, request: CommitRequest, failure: DatamonError) -> None:
        """The store refused the first step of a commit, so it has not begun. Anything else ends the workflow."""
        if not isinstance(failure, StoreRefused):
            raise to_wire(failure)
        record = self._record
        record.state, record.making = record.state.advance(DiamondState.INITIALIZED, record.diamond), None
        workflow.upsert_search_attributes([STATE.value_set(record.state)])
        record.fail_commit(request, failure)

    async def _give_up(self, bundle: BundleId, failure: DatamonError) -> BundleReport | None:
        """No attempt that wakes up late may make a bundle that failed. If one has made it meanwhile, it has not failed.

        Forbidden conflicts are found by every attempt alike, and before anything is written.
        """
        if isinstance(failure, ConflictsForbidden) or not workflow.patched("failed-bundles-are-given-up"):
            return None
        return await quickly(
            CommitActivities.give_up_bundle,
            GiveUpBundle(self._record.repo, bundle),
            self._record.options,
            f"give up bundle {bundle}",
        )

    async def _set_label(self, name: str, contributor: Contributor, bundle: BundleId) -> str:
        """Label the bundle, which exists by now, so nothing can undo the commit any more. Why it failed, if it did."""
        record = self._record
        label = Label(
            name=label_name(name),
            repo=record.repo,
            bundle=bundle,
            contributor=contributor,
            set=instant(workflow.time_ns()),
            id=str(bundle),  # so that a recovery finds it set already, wherever it may have been moved since
        )
        try:
            await quickly(MetadataActivities.set_label, label, record.options, f"label {label.name}")
        except ActivityError as error:
            return f"the bundle exists, but its label could not be set: {from_wire(error)}"
        return ""

    async def _make_bundle(self, request: CommitRequest, bundle: BundleId) -> BundleReport:
        record, options = self._record, self._record.options
        taken, left_out = record.taken(), record.left_out()
        return await workflow.execute_activity_method(
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

    async def _cancel(self, request: CancelRequest) -> None:
        record = self._record
        if record.commit is not None:
            refused = WrongState("diamond", record.diamond, DiamondState.CANCELING, "it was canceled before the commit")
            record.fail_commit(record.commit, refused)
        if record.state is not DiamondState.CANCELING:  # as it may be when it was taken up
            await self._move(DiamondState.CANCELING)
        await self._fleet.stop_all(request.reason)
        await self._move(DiamondState.CANCELED)

    def _is_cancel(self, request: CancelRequest) -> bool:
        return self._record.cancel is not None and self._record.cancel.request == request.request

    def _cancel_natively(self) -> None:
        reason = readable(workflow.cancellation_reason() or "canceled from Temporal")
        if not self._record.state.ended and self._record.cancel is None:
            self._record.cancel = CancelRequest(reason=reason)

    # Publishing

    async def _move(self, state: DiamondState) -> None:
        """Enter a state: in memory at once, so that handlers see it, then in the store and in the search attributes."""
        record = self._record
        record.state = record.state.advance(state, record.diamond)
        workflow.logger.info("%s%s", state, f": {record.reason}" if record.reason else "")
        workflow.upsert_search_attributes([STATE.value_set(state), SPLITS.value_set(len(record.splits))])
        self._describe()
        await self._publish(MetadataActivities.publish_diamond)

    async def _publish(self, activity: Callable[[MetadataActivities, Diamond], None]) -> None:
        await quickly(
            activity,
            self._record.descriptor(instant(workflow.time_ns())),
            self._record.options,
            f"diamond.yaml: {self._record.state}",
        )
        self._record.revision += 1

    def _describe(self) -> None:
        workflow.set_current_details(describe(self._record))

    # Long lives

    def _is_long(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()

    async def _continue_as_new_when_quiet(self) -> None:
        """Let the splits that run come to an end first, if that is soon, and start no other.

        A run that hears something in the very moment it continues must be replayed from its start and try again; with
        50 short splits reporting, it tried for 13 s.
        """
        if workflow.patched("quiet-before-continuing"):
            with suppress(TimeoutError):
                await workflow.wait_condition(self._is_quiet, timeout=self._record.options.quiet_seconds)
            if self._record.cancel is not None or self._record.may_commit():
                return  # that comes first
        await self._continue_as_new()

    def _is_quiet(self) -> bool:
        return self._fleet.is_quiet or self._record.cancel is not None or self._record.may_commit()

    async def _continue_as_new(self) -> None:
        """Go on in a new run with the same record. Waiting clients are told to ask again; nothing is lost."""
        self._turning = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._record.pack())


def _new_id() -> str:
    size = 15 if workflow.patched("ids-sort-within-a-second") else 16
    return id_at(workflow.time(), workflow.random().randbytes(size))


def _named(request: CommitRequest) -> CommitRequest:
    """A request with a name, which one that was sent by hand may lack."""
    return request if request.request else replace(request, request=_new_id())


def _ask_again() -> ApplicationError:
    return ApplicationError("the diamond continues in a new run; ask again", type=ASK_AGAIN)
