"""Uploading a split: plan the source, store its files in Spark tasks, and record their lists in split.yaml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from temporalio import activity

from activities.spark import spark_job
from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.content import PartReport, Upload, upload_part
from datamon.errors import StaleWrite
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import Split, SplitState
from datamon.plan import Plan, Source, make_plan
from datamon.stores import Context

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class UploadSplit:
    """One generation of a split to upload."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    source: Source


@dataclass(frozen=True)
class UploadReport:
    """What an upload came to."""

    files: int
    bytes: int
    stored: int
    skipped: int
    reserved: list[str] = field(default_factory=list)


class UploadActivities:
    """Runs where the source is."""

    def __init__(self, context: Context, spark: Callable[[], SparkContext]) -> None:
        self._context, self._spark = context, spark

    @activity.defn(no_thread_cancel_exception=True)
    def upload_split(self, request: UploadSplit) -> UploadReport:
        """Store the files of a source and their lists. A repeated attempt goes on where the last one ended."""
        about = f"upload {request.repo}/{request.diamond}/{request.split}"
        with wire_errors(), spark_job(self._spark, about) as job:
            job.progress.phase = "planning"
            plan = make_plan(request.source, job.slots)
            job.progress.phase = "uploading"
            job.progress.all_files, job.progress.all_bytes = plan.files, plan.bytes
            work = partial(upload_part, upload=self._upload(request, plan))
            reports = job.run(work, plan.parts, lambda report: (report.files, report.bytes))
            split = self._record(request, plan, reports)
        return UploadReport(split.files, split.bytes, split.stored, split.skipped, plan.reserved)

    def _upload(self, request: UploadSplit, plan: Plan) -> Upload:
        return Upload(
            request.repo, request.diamond, request.split, request.generation, plan.digest, request.source, self._context
        )

    def _record(self, request: UploadSplit, plan: Plan, reports: list[PartReport]) -> Split:
        """Write the lists into split.yaml, while it is running in this very generation."""
        key = keys.split(request.repo, request.diamond, request.split)
        files = sum(report.files for report in reports)

        def record(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(
                split,
                files=files,
                bytes=sum(report.bytes for report in reports),
                stored=sum(report.stored for report in reports),
                skipped=plan.skipped + plan.files - files,
                attempts=activity.info().attempt,
                plan=plan.digest,
                lists=[report.info for report in reports if report.info is not None],
            )

        return catalog.revise_split(self._context.vmetadata, key, request.generation, record)
