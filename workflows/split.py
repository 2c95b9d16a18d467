"""SplitWorkflow: one generation of one split, from running to done or failed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.metadata import FinishSplit, MetadataActivities
    from activities.upload import UploadActivities, UploadReport, UploadSplit
    from activities.wire import from_wire, to_wire
    from datamon.errors import DatamonError, Failed
    from datamon.ids import MAX_TEXT, BundleId
    from datamon.model import Split, SplitState, instant
    from datamon.sources import Source
    from workflows.counting import count_split, count_upload
    from workflows.details import table
    from workflows.hearing import brief, readable
    from workflows.messages import Refusal, SplitInput, SplitReport
    from workflows.names import STATE, diamond_workflow
    from workflows.waiting import outlast_cancel, quickly


@workflow.defn
class SplitWorkflow:
    """Uploads a split and tells its diamond how that ended."""

    @workflow.init
    def __init__(self, order: SplitInput) -> None:
        self._order = order
        self._state = SplitState.RUNNING
        self._stopped: str | None = None  # why, once it was told to stop
        self._uploading: asyncio.Future[UploadReport] | None = None
        self._describe("planning and uploading")

    @workflow.run
    async def run(self, order: SplitInput) -> SplitReport:
        """The story of a split. The Web UI's cancel button tells it the same way as the message `stop`."""
        report = await outlast_cancel(self._live(), on_cancel=self._stop_natively)
        if report.failure is None:
            return report
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        raise to_wire(report.failure.error())  # all is told already; this is for the list of workflows in the Web UI

    async def _live(self) -> SplitReport:
        try:
            base = await self._start()
            if self._stopped is not None:
                raise asyncio.CancelledError
            self._uploading = asyncio.ensure_future(self._upload(base))
            report = self._done(await self._uploading)
        except (ActivityError, asyncio.CancelledError) as error:
            report = self._failed(error)
        try:
            await self._finish(report)
        except ActivityError as error:  # it cannot be published, so it did not happen; the diamond must know
            report = report if report.failure is not None else self._failed(error)
        await self._tell_diamond(report)
        return report

    @workflow.signal(description="Stop the upload; the split ends as failed with this reason. Sent by its diamond.")
    def stop(self, reason: Any = None) -> None:
        """Stop, if it is not too late."""
        if self._stopped is None:
            self._stopped = readable(reason if isinstance(reason, str) else "it was told to stop")
            if self._uploading is not None:
                self._uploading.cancel()

    @workflow.signal(description="Nothing. Whether it arrives tells the diamond that this split is still there.")
    def probe(self) -> None:
        """Be there."""

    def _stop_natively(self) -> None:
        self.stop(workflow.cancellation_reason() or "canceled from Temporal")

    @workflow.query(description="The split's state: running, done or failed.")
    def state(self) -> str:
        """Where this generation stands."""
        return self._state

    async def _upload(self, base: BundleId | None) -> UploadReport:
        order, options, add = self._order, self._order.options, self._order.add
        return await workflow.execute_activity_method(
            UploadActivities.upload_split,
            UploadSplit(
                order.repo,
                order.diamond,
                add.split,
                order.generation,
                Source(add.path, add.skip_on_error, add.files, add.name_filter),
                base,
            ),
            task_queue=add.queue,
            start_to_close_timeout=timedelta(days=options.spark_days),
            heartbeat_timeout=timedelta(seconds=options.heartbeat_seconds),
            retry_policy=options.retry,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=brief(f"upload {add.path} on {add.host}"),
        )

    async def _start(self) -> BundleId | None:
        order = self._order
        count_split(order.repo, SplitState.RUNNING)
        workflow.logger.info("uploads %s on %s, generation %d", order.add.path, order.add.host, order.generation)
        started = instant(workflow.time_ns())
        return await quickly(
            MetadataActivities.start_split,
            Split(
                id=order.add.split,
                diamond=order.diamond,
                repo=order.repo,
                state=SplitState.RUNNING,
                generation=order.generation,
                revision=1,
                tag=order.add.tag,
                contributor=order.add.contributor,
                host=order.add.host,
                source=order.add.path,
                created=order.created,
                started=started,
                position=order.position,
                attempts=1,
                epoch=order.epoch,
            ),
            order.options,
            "split.yaml: running",
        )

    async def _finish(self, report: SplitReport) -> None:
        order = self._order
        await quickly(
            MetadataActivities.finish_split,
            FinishSplit(
                order.repo,
                order.diamond,
                report.split,
                report.generation,
                report.state,
                instant(workflow.time_ns()),
                report.reason,
                order.epoch,
            ),
            order.options,
            f"split.yaml: {report.state}",
        )
        self._state = report.state
        count_split(order.repo, report.state)
        if report.state is SplitState.DONE:
            count_upload(order.repo, report.files, report.stored, max(0, report.bytes - report.stored))
        workflow.upsert_search_attributes([STATE.value_set(report.state)])
        told = report.reason or f"{report.files} files, {report.bytes} bytes, {report.stored} newly stored"
        workflow.logger.info("%s: %s", report.state, told)
        self._describe(told)

    async def _tell_diamond(self, report: SplitReport) -> None:
        """By workflow id and no run id: the diamond may have continued as new. One that has ended needs no telling."""
        diamond = workflow.get_external_workflow_handle(diamond_workflow(self._order.repo, self._order.diamond))
        try:
            await diamond.signal("split_changed", report)
        except ApplicationError as error:
            workflow.logger.info("the diamond is gone: %s", error)

    def _done(self, upload: UploadReport) -> SplitReport:
        return SplitReport(
            self._order.add.split,
            self._order.generation,
            SplitState.DONE,
            upload.files,
            upload.bytes,
            upload.stored,
            upload.skipped,
            upload.reserved,
            epoch=self._order.epoch,
        )

    def _failed(self, error: BaseException) -> SplitReport:
        cause: DatamonError
        if self._stopped is not None and is_cancelled_exception(error):
            cause = Failed(self._stopped)
        else:
            cause = from_wire(error)
        if len(str(cause)) > MAX_TEXT:  # it goes through Temporal several times
            cause = Failed(readable(str(cause)))
        return SplitReport(
            self._order.add.split,
            self._order.generation,
            SplitState.FAILED,
            reason=str(cause),
            failure=Refusal.of(self._order.add.request, cause),
            epoch=self._order.epoch,
        )

    def _describe(self, text: str) -> None:
        add = self._order.add
        rows = [
            ("state", self._state),
            ("source", f"`{add.path}` on {add.host}"),
            ("tag", add.tag or "none"),
            ("generation", str(self._order.generation)),
            ("doing" if self._state is SplitState.RUNNING else "outcome", text),
        ]
        workflow.set_current_details(table(("split", add.split), rows))
