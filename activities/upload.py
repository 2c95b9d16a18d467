"""Uploading a split: plan the source, store its files in Spark tasks, and record their lists in split.yaml."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from temporalio import activity

from activities.sharing import check_written, same_files
from activities.spark import Progress, spark_job
from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.errors import StaleWrite
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.known import Base
from datamon.model import Split, SplitState
from datamon.plan import Plan, make_plan
from datamon.sources import Source, allowed, open_tree
from datamon.stores import Context
from datamon.upload import PartReport, Upload, upload_part, upload_slice

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class UploadSplit:
    """One generation of a split to upload. What the bundle `base` holds need not be stored again."""

    repo: RepoName
    diamond: DiamondId
    split: SplitId
    generation: int
    source: Source
    base: BundleId | None = None


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

    def __init__(self, context: Context, spark: Callable[[], SparkContext], sources: str = "") -> None:
        """`sources`: the folders of this machine that may be uploaded, with `:` between; all, if there are none."""
        self._context, self._spark, self._sources = context, spark, sources

    @activity.defn(no_thread_cancel_exception=True)
    def upload_split(self, request: UploadSplit) -> UploadReport:
        """Store the files of a source and their lists. A repeated attempt goes on where the last one ended."""
        about = f"upload {request.repo}/{request.diamond}/{request.split}"
        with wire_errors(), spark_job(self._spark, about) as job:
            request = replace(request, source=allowed(request.source, self._sources))
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
            lists = (upload.list_key(report.info) for report in parts if report.info is not None)
            check_written(self._context.vmetadata, lists, on_cluster=job.on_cluster)
            stored = before.stored + sum(report.stored for report in (*slices, *parts))
            split = self._record(request, plan, parts, stored)
        return UploadReport(split.files, split.bytes, split.stored, split.skipped, plan.reserved)

    def _upload(self, request: UploadSplit, plan: Plan, planned: int) -> Upload:
        return Upload(
            request.repo,
            request.diamond,
            request.split,
            request.generation,
            plan.digest,
            request.source,
            self._context,
            self._base(request),
            planned,
        )

    def _base(self, request: UploadSplit) -> Base | None:
        return Base(catalog.get_bundle(self._context, request.repo, request.base)) if request.base else None

    def _note_attempt(self, request: UploadSplit) -> None:
        """Let split.yaml say which attempt it is. One that woke up late, when the split has moved on, ends here."""
        number, key = activity.info().attempt, keys.split(request.repo, request.diamond, request.split)

        def note(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(split, attempts=max(number, split.attempts))

        if number > 1:
            catalog.revise_split(self._context.vmetadata, key, request.generation, note)

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
                lists=[report.info for report in parts if report.info is not None],
            )

        return catalog.revise_split(self._context.vmetadata, key, request.generation, record)


def _last_attempt() -> Progress:
    """How far the attempt before this one got, as far as it could still tell."""
    told = activity.info().heartbeat_details
    return Progress.read(told[0]) if told else Progress()
