"""The splits of a diamond as child workflows: starting them in a window, stopping them, noticing that one is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, TerminatedError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from activities.wire import from_wire
    from datamon.ids import SplitId
    from datamon.model import SplitState
    from workflows.messages import AddSplit, SplitInput, SplitReport
    from workflows.names import TASK_QUEUE, attributes, split_workflow
    from workflows.record import DiamondRecord, SplitRow
    from workflows.split import SplitWorkflow

_Child = workflow.ChildWorkflowHandle[Any, SplitReport]
_TERMINATED = "its workflow was terminated"
_PAUSES = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # seconds between attempts to start a split whose run before is just ending


class Fleet:
    """Moves the splits of a record. It keeps nothing itself that would have to outlive a run of the diamond."""

    def __init__(self, record: DiamondRecord) -> None:
        self._record = record
        self._watches: dict[tuple[SplitId, int], asyncio.Task[None]] = {}

    def has_work(self) -> bool:
        """Whether there is a split to start or to stop now."""
        return bool(self._to_start() or self._to_stop())

    async def start(self) -> None:
        """Start the splits that were added first, while there is room in the window."""
        await asyncio.gather(*(self._start(split, row) for split, row in self._to_start()))

    async def stop(self) -> None:
        """Tell splits to stop that are marked so."""
        marked = [(split, row, row.stop) for split, row in self._to_stop()]
        for _, row, _ in marked:
            row.stop = ""
        await asyncio.gather(*(self._tell(split, row, SplitWorkflow.stop, why) for split, row, why in marked))

    async def stop_all(self, why: str) -> None:
        """Stop every split that has not ended, and wait until they have."""
        for row in self._record.splits.values():
            if row.waiting is not None:
                row.waiting, row.state, row.reason = None, SplitState.FAILED, why
            if row.open:
                row.stop = why
        while self._open():
            await self.stop()
            await self._until_ended(self._record.options.stop_seconds)
            for _, row in self._open():  # not heard, or gone without a word: telling it again shows which
                row.stop = why

    async def _until_ended(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: not self._open(), timeout=seconds)

    @property
    def has_unwatched(self) -> bool:
        """Whether splits are open that an earlier run of the diamond started: their ends reach us by message only."""
        return bool(self._unwatched())

    async def probe(self) -> None:
        """Find those that ended without a word, because somebody terminated them."""
        await asyncio.gather(*(self._tell(split, row, SplitWorkflow.probe) for split, row in self._unwatched()))

    def _open(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._record.splits.items() if row.open]

    def _unwatched(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._open() if (split, row.generation) not in self._watches]

    def _to_start(self) -> list[tuple[SplitId, SplitRow]]:
        room = self._record.options.window - sum(row.open for row in self._record.splits.values())
        waiting = [item for item in self._record.in_line() if item[1].waiting is not None and not item[1].open]
        return waiting[: max(room, 0)]

    def _to_stop(self) -> list[tuple[SplitId, SplitRow]]:
        return [(split, row) for split, row in self._open() if row.stop]

    async def _start(self, split: SplitId, row: SplitRow) -> None:
        """Start the next generation of a split, once the one before, which has told that it ended, is gone."""
        add = row.waiting
        if add is None:
            return
        row.generation, row.open, row.waiting, row.superseded = row.generation + 1, True, None, False
        for pause in _PAUSES:
            try:
                child = await self._start_child(split, row, add)
            except WorkflowAlreadyStartedError:
                await workflow.sleep(pause, summary=f"until the run before of split {split} is gone")
            else:
                row.started = row.waiting is None
                watch = asyncio.create_task(self._watch(split, row.generation, child))
                self._watches[split, row.generation] = watch
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

    async def _tell(self, split: SplitId, row: SplitRow, message: Any, *words: str) -> None:
        child = split_workflow(self._record.repo, self._record.diamond, split)
        generation = row.generation
        try:
            await workflow.get_external_workflow_handle(child).signal(message, args=list(words))
        except ApplicationError:  # it has ended, and would have told so before it did
            self._lost(split, generation, _TERMINATED)

    async def _watch(self, split: SplitId, generation: int, child: _Child) -> None:
        """A split tells how it ended, but not when somebody terminates it. This run of the diamond sees that itself."""
        try:
            self._record.report(await child)
        except ChildWorkflowError as error:
            terminated = isinstance(error.cause, TerminatedError)
            self._lost(split, generation, _TERMINATED if terminated else str(from_wire(error)))

    def _lost(self, split: SplitId, generation: int, why: str) -> None:
        self._record.report(SplitReport(split, generation, SplitState.FAILED, reason=why))
