"""The splits of a diamond as child workflows: starting them in a window, stopping them, noticing that one is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, TerminatedError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from datamon.activities.contracts.metadata import EndedSplit, EndSplit, MetadataActivities
    from datamon.activities.failures import from_failure
    from datamon.core.ids import SplitId
    from datamon.diamonds.model import Split, SplitState
    from datamon.workflows.common.message_checks import summary_text
    from datamon.workflows.common.names import TASK_QUEUE, attributes, split_workflow
    from datamon.workflows.common.running import now, run_metadata_activity
    from datamon.workflows.diamonds.messages import AddSplit, SplitReport, UploadRequest
    from datamon.workflows.diamonds.record import DiamondRecord
    from datamon.workflows.diamonds.split import SplitWorkflow
    from datamon.workflows.diamonds.split_rows import SplitRow

_Child = workflow.ChildWorkflowHandle[Any, SplitReport]
_TERMINATED = "its workflow was terminated"
_NEVER_RAN = 50  # descriptors in one message, each with a path and a reason
_PAUSES = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # seconds between attempts to start a split whose previous run is just ending


class SplitChildren:
    """Starts and stops the splits of a record. It keeps nothing that would have to outlive a run of the diamond."""

    def __init__(self, record: DiamondRecord) -> None:
        self._record = record
        self._watches: dict[tuple[SplitId, int], asyncio.Task[None]] = {}

    def has_work(self) -> bool:
        """Whether there is a split to start or to stop now."""
        return bool(self._record.ready() or self._to_stop())

    async def start(self) -> None:
        """Start the splits that were added first, while there is room in the window."""
        await asyncio.gather(*(self._start(split) for split in self._record.ready()))

    async def stop(self) -> None:
        """Send the message `stop` to the splits that are marked for it."""
        marked = [(split, row, row.stop) for split, row in self._to_stop()]
        for _, row, _ in marked:
            row.stop = ""
        await asyncio.gather(*(self._send(split, row, SplitWorkflow.stop, reason) for split, row, reason in marked))

    async def stop_all(self, reason: str) -> None:
        """Stop every split that has not ended, and wait until all have ended."""
        dropped = self._record.drop_waiting(reason)
        while self._open():
            for (
                _,
                row,
            ) in self._open():  # not asked yet, not delivered, or gone without a report: sending again shows which
                row.stop = reason
            await self.stop()
            await self._until_ended(self._record.options.stop_seconds)
        if dropped:
            await self._publish_dropped(dropped)

    async def _publish_dropped(self, dropped: dict[SplitId, AddSplit]) -> None:
        """Publish splits that have no workflow to do it. Their next generation has failed, whatever came before."""
        record, ended = self._record, now()
        for split in dropped:
            record.splits[split].generation += 1
        never_ran = [
            Split(
                id=split,
                diamond=record.diamond,
                repo=record.repo,
                state=SplitState.FAILED,
                generation=row.generation,
                revision=1,
                tag=add.tag,
                contributor=add.contributor,
                host=add.host,
                source=add.source.path,
                created=row.created,
                added=row.added,
                started=None,
                position=row.position,
                ended=ended,
                reason=row.reason,
                epoch=record.epoch,
                request=add.request,
            )
            for split, add in dropped.items()
            for row in (record.splits[split],)
        ]
        for start in range(0, len(never_ran), _NEVER_RAN):
            some = never_ran[start : start + _NEVER_RAN]
            summary = f"split.yaml of {len(some)} that never ran"
            await run_metadata_activity(MetadataActivities.fail_splits, some, record.options, summary)

    async def dismiss(self, splits: list[SplitId], reason: str) -> None:
        """Stop those runs of splits that no longer count, if they still exist."""
        await asyncio.gather(*(self._signal(split, SplitWorkflow.stop, reason) for split in splits))

    async def _until_ended(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: not self._open(), timeout=seconds)

    @property
    def has_unwatched(self) -> bool:
        """Whether splits are open that an earlier run of the diamond started. Only a message tells us that they end."""
        return bool(self._unwatched())

    @property
    def is_quiet(self) -> bool:
        """Whether no split runs that may still send this run of the diamond something."""
        return not self._record.index.open and not self._watches

    async def probe(self) -> None:
        """Find splits that ended without a report, because somebody terminated them."""
        await asyncio.gather(*(self._send(split, row, SplitWorkflow.probe) for split, row in self._unwatched()))

    def _open(self) -> list[tuple[SplitId, SplitRow]]:
        """The open splits in the order they were first added, whatever happened since: a replay must find the same."""
        record = self._record
        return [(split, record.splits[split]) for split in record.splits if split in record.index.open]

    def _unwatched(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._open() if (split, row.generation) not in self._watches]

    def _to_stop(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._open() if row.stop]

    async def _start(self, split: SplitId) -> None:
        """Start the next generation of a split, once the previous run, which has reported its end, is gone."""
        add, row = self._record.begin(split, now()), self._record.splits[split]
        if add is None:
            return
        for pause in _PAUSES:
            try:
                child = await self._start_child(split, row, add)
            except WorkflowAlreadyStartedError:
                await workflow.sleep(pause, summary=f"until the previous run of split {split} is gone")
            else:
                row.started = row.waiting is None
                watch = asyncio.create_task(self._watch(split, row.generation, child))
                self._watches[split, row.generation] = watch
                return
        await self._lost(split, row.generation, "a workflow with its id is still running")

    async def _start_child(self, split: SplitId, row: SplitRow, add: AddSplit) -> _Child:
        """Start the workflow of a split. It outlives this run of the diamond, hence ABANDON."""
        record = self._record
        return await workflow.start_child_workflow(
            SplitWorkflow.run,
            UploadRequest(
                record.repo,
                record.diamond,
                add,
                row.generation,
                row.created,
                record.options,
                row.position,
                record.epoch,
                row.added,
            ),
            id=split_workflow(record.repo, record.diamond, split),
            task_queue=TASK_QUEUE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=attributes(record.repo, "split", SplitState.RUNNING),
            static_summary=summary_text(f"split {add.tag or split} of {record.repo} from {add.host}"),
            static_details=f"Uploads `{add.source.path}` into diamond {record.diamond}.",
        )

    async def _send(self, split: SplitId, row: SplitRow, message: Any, *arguments: str) -> None:
        generation = row.generation
        if not await self._signal(
            split, message, *arguments
        ):  # it is gone; if it had not been terminated, it would have reported before
            await self._lost(split, generation, _TERMINATED)

    async def _signal(self, split: SplitId, message: Any, *arguments: str) -> bool:
        """Send a signal to the workflow of a split. Returns whether it is there to receive it."""
        child = split_workflow(self._record.repo, self._record.diamond, split)
        try:
            await workflow.get_external_workflow_handle(child).signal(message, args=list(arguments))
        except ApplicationError:
            return False
        return True

    async def _watch(self, split: SplitId, generation: int, child: _Child) -> None:
        """Wait for the end of a split. It reports its end itself, but not if somebody terminates it."""
        try:
            self._record.report(await child, now())
        except ChildWorkflowError as error:
            terminated = isinstance(error.cause, TerminatedError)
            await self._lost(split, generation, _TERMINATED if terminated else str(from_failure(error)))
        finally:
            del self._watches[split, generation]

    async def _lost(self, split: SplitId, generation: int, reason: str) -> None:
        """End a split whose workflow is gone without a report: keep the end that it published, or else let it fail."""
        ended = EndedSplit(SplitState.FAILED, reason)
        row = self._record.splits[split]
        if row.open and row.generation == generation:
            ended = await self._settled(split, generation, reason)
        report = SplitReport(split, generation, ended.state, ended.files, ended.bytes, reason=ended.reason)
        self._record.report(replace(report, epoch=self._record.epoch), now())

    async def _settled(self, split: SplitId, generation: int, reason: str) -> EndedSplit:
        record = self._record
        return await run_metadata_activity(
            MetadataActivities.end_split,
            EndSplit(record.repo, record.diamond, split, generation, now(), reason, record.epoch),
            record.options,
            f"how split {split} ended",
        )
