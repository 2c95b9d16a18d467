"""SplitWorkflow: one generation of one split, from running to done or failed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from datamon.activities.contracts.metadata import FinishSplit, MetadataActivities
    from datamon.activities.contracts.upload import UploadActivities, UploadReport, UploadSplit
    from datamon.activities.failures import from_failure, to_failure
    from datamon.core.errors import DatamonError, Failed
    from datamon.core.ids import MAX_TEXT, BundleId
    from datamon.diamonds.model import Split, SplitState
    from datamon.sources.source import Source  # noqa: F401 - a sandbox knows types of messages only if they are here
    from datamon.workflows.common.details import table
    from datamon.workflows.common.message_checks import storable_text, summary_text
    from datamon.workflows.common.names import STATE, diamond_workflow
    from datamon.workflows.common.refusals import Refusal
    from datamon.workflows.common.retries import ShowsRetries, describe_failed
    from datamon.workflows.common.running import complete_despite_cancel, now, run_long_activity, run_metadata_activity
    from datamon.workflows.diamonds.messages import SplitReport, UploadRequest
    from datamon.workflows.diamonds.metrics import count_split, count_upload


@workflow.defn
class SplitWorkflow(ShowsRetries):
    """Uploads a split and reports to its diamond how that ended."""

    @workflow.init
    def __init__(self, upload_request: UploadRequest) -> None:
        super().__init__()
        self._request = upload_request
        self._state = SplitState.RUNNING
        self._stopped: str | None = None  # the reason, once it was told to stop
        self._uploading: asyncio.Future[UploadReport] | None = None
        self._doing = "planning and uploading"
        self._describe()

    @workflow.run
    async def run(self, upload_request: UploadRequest) -> SplitReport:
        """The story of a split. The Web UI's cancel button has the same effect as the message `stop`."""
        report = await complete_despite_cancel(self._live(), on_cancel=self._stop_natively)
        if report.failure is None:
            return report
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        raise to_failure(
            report.failure.error()
        )  # everything is reported already; this is for the list of workflows in the Web UI

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
        except ActivityError as error:  # an end that cannot be published does not count; the diamond must know
            report = report if report.failure is not None else self._failed(error)
        await self._report_to_diamond(report)
        return report

    @workflow.signal(description="Stop the upload; the split ends as failed with this reason. Sent by its diamond.")
    def stop(self, reason: Any = None) -> None:
        """Stop, if it is not too late."""
        if self._stopped is None:
            self._stopped = storable_text(reason if isinstance(reason, str) else "it was told to stop")
            if self._uploading is not None:
                self._uploading.cancel()

    @workflow.signal(description="Does nothing. If it arrives, the diamond knows that this split is still there.")
    def probe(self) -> None:
        """Do nothing: it is enough that the signal arrives."""

    def _stop_natively(self) -> None:
        self.stop(workflow.cancellation_reason() or "canceled from Temporal")

    @workflow.query(description="The split's state: running, done or failed.")
    def state(self) -> str:
        """Where this generation stands."""
        return self._state

    async def _upload(self, base: BundleId | None) -> UploadReport:
        request, add = self._request, self._request.add
        return await run_long_activity(
            UploadActivities.upload_split,
            UploadSplit(request.repo, request.diamond, add.split, request.generation, add.source, base),
            request.options,
            summary_text(f"upload {add.source.path} on {add.host}"),
            queue=add.queue,
        )

    async def _start(self) -> BundleId | None:
        request = self._request
        count_split(request.repo, SplitState.RUNNING)
        workflow.logger.info(
            "uploads %s on %s, generation %d", request.add.source.path, request.add.host, request.generation
        )
        started = now()
        return await run_metadata_activity(
            MetadataActivities.start_split,
            Split(
                id=request.add.split,
                diamond=request.diamond,
                repo=request.repo,
                state=SplitState.RUNNING,
                generation=request.generation,
                revision=1,
                tag=request.add.tag,
                contributor=request.add.contributor,
                host=request.add.host,
                source=request.add.source.path,
                created=request.created,
                added=request.added,
                started=started,
                position=request.position,
                attempts=1,
                epoch=request.epoch,
                request=request.add.request,
            ),
            request.options,
            "split.yaml: running",
        )

    async def _finish(self, report: SplitReport) -> None:
        request = self._request
        await run_metadata_activity(
            MetadataActivities.finish_split,
            FinishSplit(
                request.repo,
                request.diamond,
                report.split,
                report.generation,
                report.state,
                now(),
                report.reason,
                request.epoch,
            ),
            request.options,
            f"split.yaml: {report.state}",
        )
        self._state = report.state
        count_split(request.repo, report.state)
        if report.state is SplitState.DONE:
            count_upload(request.repo, report.files, report.stored, max(0, report.bytes - report.stored))
        workflow.upsert_search_attributes([STATE.value_set(report.state)])
        outcome = report.reason or f"{report.files} files, {report.bytes} bytes, {report.stored} newly stored"
        workflow.logger.info("%s: %s", report.state, outcome)
        self._doing = outcome
        self._describe()

    async def _report_to_diamond(self, report: SplitReport) -> None:
        """Report by workflow id alone: the diamond may have continued as new. One that has ended needs no report."""
        diamond = workflow.get_external_workflow_handle(diamond_workflow(self._request.repo, self._request.diamond))
        try:
            await diamond.signal("split_changed", replace(report, skipped_sample=[]))
        except ApplicationError as error:
            workflow.logger.info("the diamond is gone: %s", error)

    def _done(self, upload: UploadReport) -> SplitReport:
        return SplitReport(
            self._request.add.split,
            self._request.generation,
            SplitState.DONE,
            upload.files,
            upload.bytes,
            upload.stored,
            upload.skipped,
            upload.reserved,
            epoch=self._request.epoch,
            skipped_sample=upload.skipped_sample,
            links_followed=upload.links_followed,
        )

    def _failed(self, error: BaseException) -> SplitReport:
        cause: DatamonError
        if self._stopped is not None and is_cancelled_exception(error):
            cause = Failed(self._stopped)
        else:
            cause = from_failure(error)
        if len(str(cause)) > MAX_TEXT:  # it goes through Temporal several times
            cause = Failed(storable_text(str(cause)))
        return SplitReport(
            self._request.add.split,
            self._request.generation,
            SplitState.FAILED,
            reason=str(cause),
            failure=Refusal.of(self._request.add.request, cause),
            epoch=self._request.epoch,
        )

    def _describe(self) -> None:
        add = self._request.add
        rows = [
            ("state", self._state),
            ("source", f"`{add.source.path}` on {add.host}"),
            ("tag", add.tag or "none"),
            ("generation", str(self._request.generation)),
            ("doing" if self._state is SplitState.RUNNING else "outcome", self._doing),
            *(describe_failed(self._failed_attempts.values()) if self._state is SplitState.RUNNING else ()),
        ]
        workflow.set_current_details(table(("split", add.split), rows))
