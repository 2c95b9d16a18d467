"""Uploading a split: plan the source, store its files in Spark tasks, and record their lists in split.yaml."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from temporalio import activity

from datamon.activities.cluster_checks import check_written, same_files
from datamon.activities.contracts import upload as contract
from datamon.activities.contracts.upload import UploadReport, UploadSplit
from datamon.activities.failures import errors_as_failures
from datamon.activities.registry import ActivityGroup, Resources, RunsOn
from datamon.activities.spark import Progress, spark_job
from datamon.bundles.catalog import get_bundle
from datamon.core.errors import StaleWrite
from datamon.diamonds.catalog import revise_split
from datamon.diamonds.model import Split, SplitState
from datamon.sources.plan import Plan, make_plan
from datamon.sources.source import check_allowed
from datamon.sources.tree import open_tree
from datamon.sources.upload import BaseBundle, PartReport, Upload, upload_part, upload_slice
from datamon.stores import keys
from datamon.stores.context import Context

if TYPE_CHECKING:
    from pyspark import SparkContext


class UploadActivities(contract.UploadActivities, ActivityGroup):
    """See the contract."""

    runs_on = RunsOn.EVERY

    def __init__(self, context: Context, spark: Callable[[], SparkContext], sources: str = "") -> None:
        """`sources`: the folders of this machine that may be uploaded, with `:` between; all, if there are none."""
        self._context, self._spark, self._sources = context, spark, sources

    @classmethod
    def build(cls, resources: Resources) -> UploadActivities:
        """See ActivityGroup."""
        return cls(resources.context, resources.spark, resources.settings.sources)

    @activity.defn(no_thread_cancel_exception=True)
    def upload_split(self, request: UploadSplit) -> UploadReport:
        """See the contract."""
        about = f"upload {request.repo}/{request.diamond}/{request.split}"
        with errors_as_failures(), spark_job(self._spark, about) as job:
            request = replace(request, source=check_allowed(request.source, self._sources))
            job.progress.phase = "planning"
            self._note_attempt(request)
            before = _last_attempt()
            job.progress.stored = before.stored
            job.progress.slots = before.slots or job.slots  # cut otherwise, other packs would be made and sent
            planned = time.time_ns()
            plan = make_plan(open_tree(request.source, self._context), job.progress.slots)
            job.progress.phase = "uploading"
            job.progress.all_files, job.progress.all_bytes = plan.files, plan.bytes
            job.progress.all_parts = len(plan.slices) + len(plan.parts)
            upload = self._upload(request, plan, planned)
            with same_files(on_cluster=job.on_cluster):
                slices = job.run(partial(upload_slice, upload=upload), plan.slices)
                parts = job.run(partial(upload_part, upload=upload), plan.parts)
            lists = [report.listed for report in parts if report.listed is not None]
            written = (upload.list_key(one.index) for one in lists)
            check_written(self._context.vmetadata, written, on_cluster=job.on_cluster)
            stored = before.stored + sum(report.stored for report in (*slices, *parts))
            split = self._record(request, plan, parts, stored)
        return UploadReport(split.files, split.bytes, split.stored, split.skipped, plan.reserved)

    def _upload(self, request: UploadSplit, plan: Plan, planned: int) -> Upload:
        return Upload(
            keys.split_folder(request.repo, request.diamond, request.split),
            request.generation,
            plan.digest,
            request.source,
            self._context,
            self._base(request),
            planned,
        )

    def _base(self, request: UploadSplit) -> BaseBundle | None:
        return BaseBundle(get_bundle(self._context, request.repo, request.base)) if request.base else None

    def _note_attempt(self, request: UploadSplit) -> None:
        """Let split.yaml say which attempt it is. One that woke up late, when the split has moved on, ends here."""
        number, key = activity.info().attempt, keys.split(request.repo, request.diamond, request.split)

        def note(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(split, attempts=max(number, split.attempts))

        if number > 1:
            revise_split(self._context.vmetadata, key, request.generation, note)

    def _record(self, request: UploadSplit, plan: Plan, parts: list[PartReport], stored: int) -> Split:
        """Write the lists into split.yaml, while it is running in this very generation."""
        key = keys.split(request.repo, request.diamond, request.split)
        files = sum(report.files for report in parts)

        def record(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(
                split,
                files=files,
                bytes=sum(report.bytes for report in parts),
                stored=stored,
                skipped=plan.skipped + plan.files - files,
                attempts=activity.info().attempt,
                plan=plan.digest,
                lists=[report.listed for report in parts if report.listed is not None],
            )

        return revise_split(self._context.vmetadata, key, request.generation, record)


def _last_attempt() -> Progress:
    """How far the attempt before this one got, as far as it could still tell."""
    details = activity.info().heartbeat_details
    return Progress.read(details[0]) if details else Progress()
