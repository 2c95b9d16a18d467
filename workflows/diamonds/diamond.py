"""DiamondWorkflow: owns one diamond from `initialized` to `done` or `canceled`.

Handlers check and record; the loop of the kit calls `_act` and `_act_later`. So of two commits that arrive at the same
time, the second finds that there already is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from datamon.activities.contracts.commit import BundleReport, CommitActivities, GiveUpBundle, MakeBundle
    from datamon.activities.contracts.metadata import MetadataActivities
    from datamon.activities.contracts.recovery import RecoveryActivities, TakeUp
    from datamon.activities.failures import errors_as_failures, from_failure, to_failure
    from datamon.bundles.model import Label
    from datamon.core.contributors import Contributor
    from datamon.core.errors import BadUsage, ConflictsForbidden, DatamonError, StoreRefused, WrongState
    from datamon.core.ids import BundleId, SplitId, label_name
    from datamon.diamonds.model import Diamond, DiamondState
    from datamon.workflows.common.long_lived import LongLived, ask_again, raise_if_cancelled
    from datamon.workflows.common.message_checks import check_values, checked_message
    from datamon.workflows.common.names import SPLITS, STATE
    from datamon.workflows.common.running import new_id, now, run_long_activity, run_metadata_activity
    from datamon.workflows.diamonds.details import describe
    from datamon.workflows.diamonds.messages import (
        AddSplit,
        CancelRequest,
        CommitAnswer,
        CommitOutcome,
        CommitRequest,
        DiamondResult,
        DiamondStatus,
        SplitReport,
        SplitStatus,
        as_typed,
    )
    from datamon.workflows.diamonds.metrics import count_commit
    from datamon.workflows.diamonds.record import DiamondRecord
    from datamon.workflows.diamonds.split_children import SplitChildren

PAGE = 500  # splits in one message or answer; a payload ends at 2 MiB


@workflow.defn
class DiamondWorkflow(LongLived[DiamondRecord]):
    """Owns one diamond from `initialized` to `done` or `canceled`."""

    @workflow.init
    def __init__(self, record: DiamondRecord) -> None:
        super().__init__(record)
        self._children = SplitChildren(record)

    @workflow.run
    async def run(self, record: DiamondRecord) -> DiamondResult:
        """The story of a diamond. The Web UI's cancel button has the same effect as the message `cancel`."""
        await self._live()
        raise_if_cancelled(canceled=self._record.state is DiamondState.CANCELED)
        return DiamondResult(self._record.state, self._record.answer)

    async def _act(self) -> bool:
        record = self._record
        await self._children.stop()
        if record.cancel is not None:
            await self._cancel(record.cancel)
        elif record.commit is not None and record.may_commit():
            await self._commit(record.commit)
        else:
            return False
        return True

    async def _act_later(self) -> None:
        await self._children.start()

    def _has_ended(self) -> bool:
        return self._record.state.ended

    def _has_work(self) -> bool:
        return self._has_urgent_work() or self._children.has_work()

    def _has_urgent_work(self) -> bool:
        return self._record.cancel is not None or self._record.may_commit()

    def _is_quiet(self) -> bool:
        return self._children.is_quiet

    async def _wait(self) -> None:
        """Wait for something to do, and now and then check whether splits of earlier runs are still there.

        A commit that waits for splits may have a deadline.
        """
        record = self._record
        while not (self._has_work() or self._is_long()):
            deadline, pauses = record.deadline, []
            if self._children.has_unwatched:
                pauses.append(record.options.probe_seconds)
            if deadline:
                pauses.append(max(0, deadline - workflow.time()))

            def has_changed(seen: float = deadline) -> bool:
                return self._has_work() or self._is_long() or record.deadline != seen

            try:
                await workflow.wait_condition(has_changed, timeout=min(pauses, default=None))
            except TimeoutError:
                if deadline and workflow.time() >= deadline:
                    if not record.may_commit():
                        record.give_up_waiting()
                    return
                await self._children.probe()

    def _details(self) -> str:
        failed = () if self._record.state.ended else self._failed_attempts.values()
        return describe(self._record, failed)

    # Messages of people and splits

    @workflow.update(description="Answers once the diamond is open. Sent together with the start.")
    async def initialized(self) -> DiamondStatus:
        """Wait until diamond.yaml is there."""
        await workflow.wait_condition(lambda: self._is_open() or self._open_failure is not None)
        self._raise_if_not_opened()
        return self.status()

    @workflow.signal(
        description='Add splits: [{"path": "/data/part1", "host": "node-1"}], or [{"path": "s3://bucket/part1"}].'
    )
    def add(self, splits: Any = None) -> None:
        """Accept or refuse splits; the query `split` tells which. The same request twice counts once."""
        with self._checking_message():
            messages = splits if isinstance(splits, list) else [splits]
            if len(messages) > PAGE:
                raise BadUsage(f"one message adds at most {PAGE} splits, and this one has {len(messages):,}")
            typed = [checked_message(AddSplit, as_typed(message)) for message in messages]
            for split in [self._record.completed(one, new_id) for one in typed]:
                refused = self._record.add(split, now())
                if refused is not None:
                    workflow.logger.info("add of split %s refused: %s", split.split, refused)

    @workflow.signal(description="A split has ended. Sent by SplitWorkflow.")
    def split_changed(self, report: Any = None) -> None:
        """Take note of how a split ended."""
        with self._checking_message():
            self._record.report(checked_message(SplitReport, report), now())

    @workflow.update(description='Commit the done splits into one bundle, and answer with it: {"message": "March"}.')
    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit, and wait for the outcome."""
        request = _named(request)
        if not self._record.knows_commit(request):
            self._record.accept_commit(request, workflow.time())
            self._describe()
        await workflow.wait_condition(lambda: self._record.has_answer(request) or self._lets_go())
        self._raise_if_not_opened()
        answer, failed = self._record.answer, self._record.failed_commits.get(request.request)
        if failed is not None:
            raise to_failure(failed.error())
        if answer is not None and answer.request == request.request:
            return answer
        raise ask_again()

    @commit.validator
    def _check_commit(self, request: CommitRequest) -> None:
        if not request.request or not self._record.knows_commit(request):
            with errors_as_failures():
                self._record.check_commit(check_values(request))

    @workflow.signal(
        name="commit",
        description='Commit the done splits into one bundle: {"message": "March"}. See `status` for the outcome.',
    )
    def commit_signal(self, message: Any = None) -> None:
        """Commit, for callers that do not wait. What is refused changes nothing; the query `commit` says why."""
        with self._checking_message():
            request = _named(checked_message(CommitRequest, message))
            if self._record.is_under_way(request):
                return
            try:
                self._record.check_commit(request)
            except DatamonError as error:
                self._record.refuse_commit(request, error)
                workflow.logger.info("commit refused: %s", error)
            else:
                self._record.accept_commit(request, workflow.time())

    @workflow.update(description='Stop all splits and close the diamond without a bundle: {"reason": "a mistake"}.')
    async def cancel(self, request: CancelRequest) -> DiamondStatus:
        """Cancel, and wait until the splits have stopped."""
        if not self._is_cancel(request):
            self._record.cancel = request
        await workflow.wait_condition(lambda: self._ended or self._lets_go())
        self._raise_if_not_opened()
        if self._continuing:
            raise ask_again()
        return self.status()

    @cancel.validator
    def _check_cancel(self, request: CancelRequest) -> None:
        if not self._is_cancel(request):
            with errors_as_failures():
                check_values(request)
                self._record.check_open("it cannot be canceled any more")

    @workflow.signal(
        name="cancel", description='Stop all splits and close the diamond without a bundle: {"reason": "a mistake"}.'
    )
    def cancel_signal(self, message: Any = None) -> None:
        """Cancel, for callers that do not wait. During a commit it waits, and takes effect if the commit fails."""
        with self._checking_message():
            self._request_cancel(CancelRequest() if message is None else checked_message(CancelRequest, message))

    def _cancel_natively(self, reason: str) -> None:
        self._request_cancel(CancelRequest(reason=reason))

    def _request_cancel(self, request: CancelRequest) -> None:
        if not self._record.state.ended and self._record.cancel is None:
            self._record.cancel = request

    def _is_cancel(self, request: CancelRequest) -> bool:
        return self._record.cancel is not None and self._record.cancel.request == request.request

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
        """The outcome of a commit that was sent as a signal."""
        return self._record.outcome(request)

    # Opening

    def _is_open(self) -> bool:
        return self._record.revision > 0 and not self._record.recovering

    async def _open(self) -> None:
        if self._record.recovering:
            await self._take_up()
        else:
            self._record.created = now()
            await self._publish(MetadataActivities.open_diamond)

    async def _take_up(self) -> None:
        """Continue from what the store says. The next revision of diamond.yaml shuts out whoever worked before."""
        record = self._record
        reason = "it was running when the diamond was recovered"
        taken = await run_long_activity(
            RecoveryActivities.take_up,
            TakeUp(record.repo, record.diamond, now(), reason, new_id()),
            record.options,
            "what the store says",
            heartbeat_seconds=record.options.metadata_seconds,
        )
        record.restore(taken)
        if record.answer is not None:
            if taken.diamond.label:
                unlabeled = await self._set_label(taken.diamond.label, record.contributor, record.answer.bundle)
                record.answer = replace(record.answer, label=taken.diamond.label, unlabeled=unlabeled)
                record.reason = unlabeled
            await self._move(DiamondState.DONE)
        elif record.state is DiamondState.COMMITTING:
            record.reason = "its commit was lost; commit it again"
            await self._move(DiamondState.INITIALIZED)
        else:
            await self._publish(MetadataActivities.publish_diamond)
        record.recovering = False
        await self._children.dismiss([split.id for split in taken.splits if split.stopped], reason)

    # Committing

    async def _commit(self, request: CommitRequest) -> None:
        """Stop what still runs, then take a snapshot, so that no split becomes done without being in the bundle."""
        record = self._record
        try:
            record.check_enough(request)
        except DatamonError as error:
            record.fail_commit(request, error)
            return
        accepted = workflow.now()
        bundle = record.making = BundleId(new_id())
        try:
            await self._move(DiamondState.COMMITTING)
        except ActivityError as error:
            self._undo_committing(request, from_failure(error))
            return
        await self._children.stop_all("it was still running when the diamond was committed")
        made = await self._make_or_give_up(request, bundle)
        if made is None:
            return
        answer = CommitAnswer(
            request.request, bundle, made.files, made.bytes, made.conflicts, record.left_out(), request.label
        )
        if request.label:
            who = request.contributor or record.contributor
            answer = replace(answer, unlabeled=await self._set_label(request.label, who, bundle))
        record.reason, record.bundle, record.making = answer.unlabeled, bundle, None
        await self._move(DiamondState.DONE)
        count_commit(record.repo, workflow.now() - accepted, made.conflicts)
        record.answer = answer  # last: whoever waits for the answer finds the diamond done

    def _undo_committing(self, request: CommitRequest, failure: DatamonError) -> None:
        """Undo a commit that has not begun, because the store refused its first step. Other errors end the workflow."""
        if not isinstance(failure, StoreRefused):
            raise to_failure(failure)
        record = self._record
        record.state, record.making = record.state.advance(DiamondState.INITIALIZED, record.diamond), None
        workflow.upsert_search_attributes([STATE.value_set(record.state)])
        record.fail_commit(request, failure)

    async def _make_or_give_up(self, request: CommitRequest, bundle: BundleId) -> BundleReport | None:
        """The report on the bundle; or None, once it can never exist and the diamond is open again."""
        record = self._record
        try:
            return await self._make_bundle(request, bundle)
        except ActivityError as error:
            failure = from_failure(error)
        if isinstance(failure, StoreRefused):  # what follows may have to wait until somebody renews credentials
            record.fail_commit(request, failure)
            self._describe()
        made = await self._give_up(bundle, failure)
        if made is not None:  # an attempt that was taken for dead has made it
            record.failed_commits.pop(request.request, None)
            record.commit = request
            return made
        record.reason, record.making = str(failure), None
        await self._move(DiamondState.INITIALIZED)
        if not record.has_answer(request):
            record.fail_commit(request, failure)
        return None

    async def _make_bundle(self, request: CommitRequest, bundle: BundleId) -> BundleReport:
        record = self._record
        taken = record.taken()
        return await run_long_activity(
            CommitActivities.make_bundle,
            MakeBundle(
                repo=record.repo,
                diamond=record.diamond,
                bundle=bundle,
                message=request.message,
                created=now(),
                mode=request.mode,
                order=request.order,
                splits=taken,
                left_out=record.left_out(),
                metadata=record.metadata | request.metadata,
            ),
            record.options,
            f"merge {len(taken)} splits into bundle {bundle}",
        )

    async def _give_up(self, bundle: BundleId, failure: DatamonError) -> BundleReport | None:
        """Prevent an attempt that wakes up late from making a bundle that failed, or report on it if one has made it.

        With forbidden conflicts, there is nothing to prevent: every attempt finds them before anything is written.
        """
        if isinstance(failure, ConflictsForbidden):
            return None
        return await run_metadata_activity(
            CommitActivities.give_up_bundle,
            GiveUpBundle(self._record.repo, bundle),
            self._record.options,
            f"give up bundle {bundle}",
        )

    async def _set_label(self, name: str, contributor: Contributor, bundle: BundleId) -> str:
        """Label the bundle, which exists: nothing can undo the commit any more. Returns why labeling failed, if so."""
        record = self._record
        label = Label(
            name=label_name(name),
            repo=record.repo,
            bundle=bundle,
            contributor=contributor,
            set=now(),
            id=str(bundle),  # so that a recovery finds it set already, wherever it may have been moved since
        )
        try:
            await run_metadata_activity(MetadataActivities.set_label, label, record.options, f"label {label.name}")
        except ActivityError as error:
            return f"the bundle exists, but its label could not be set: {from_failure(error)}"
        return ""

    # Canceling

    async def _cancel(self, request: CancelRequest) -> None:
        record = self._record
        if record.commit is not None:
            refused = WrongState("diamond", record.diamond, DiamondState.CANCELING, "it was canceled before the commit")
            record.fail_commit(record.commit, refused)
        if record.state is not DiamondState.CANCELING:  # it may be, if it was taken up
            await self._move(DiamondState.CANCELING)
        await self._children.stop_all(request.reason)
        await self._move(DiamondState.CANCELED)

    # Publishing

    async def _move(self, state: DiamondState) -> None:
        """Enter a state: in memory at once, so that handlers see it, then in the store and in the search attributes.

        Handlers run while the store is written to; whoever awaits this must look at the record again.
        """
        record = self._record
        record.state = record.state.advance(state, record.diamond)
        workflow.logger.info("%s%s", state, f": {record.reason}" if record.reason else "")
        workflow.upsert_search_attributes([STATE.value_set(state), SPLITS.value_set(len(record.splits))])
        self._describe()
        await self._publish(MetadataActivities.publish_diamond)

    async def _publish(self, activity: Callable[[MetadataActivities, Diamond], None]) -> None:
        record = self._record
        await run_metadata_activity(activity, record.descriptor(now()), record.options, f"diamond.yaml: {record.state}")
        record.revision += 1


def _named(request: CommitRequest) -> CommitRequest:
    """The commit with a request id, which may be missing if it was sent by hand."""
    return request if request.request else replace(request, request=new_id())
