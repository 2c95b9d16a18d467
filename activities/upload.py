"""Uploading a split: plan the source, store its files in Spark tasks, and record their lists in split.yaml."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from blake3 import blake3
from temporalio import activity

from datamon.activities.cluster_checks import check_written, same_files
from datamon.activities.contracts import upload as contract
from datamon.activities.contracts.upload import UploadReport, UploadSplit
from datamon.activities.failures import errors_as_failures
from datamon.activities.registry import ActivityGroup, Resources, RunsOn
from datamon.activities.spark import Progress, SparkJob, spark_job
from datamon.bundles.catalog import get_bundle
from datamon.content.compression import USUAL_LEVEL
from datamon.core.errors import DatamonError, NoStore, NotFound, StaleWrite
from datamon.diamonds.catalog import revise_split
from datamon.diamonds.model import Split, SplitState
from datamon.sources.plan import Plan, check_not_empty, make_plan
from datamon.sources.skipped import Skipped, read_skipped, sample_of
from datamon.sources.source import check_allowed
from datamon.sources.tree import SourceFile, open_tree
from datamon.sources.upload import BaseBundle, PartReport, Upload, find_chunks, upload_part, upload_slice
from datamon.stores import keys
from datamon.stores.context import Context
from datamon.stores.identity import require_store

if TYPE_CHECKING:
    from pyspark import SparkContext


class UploadActivities(contract.UploadActivities, ActivityGroup):
    """See the contract."""

    runs_on = RunsOn.EVERY

    def __init__(
        self,
        context: Context,
        spark: Callable[[], SparkContext],
        sources: str = "",
        compression: int = USUAL_LEVEL,
        cache: str = "",
    ) -> None:
        """`sources`: the folders of this machine that may be uploaded, with `:` between; all, if there are none.

        `cache`: the folder of this host's caches of unchanged files; none, if it is not to have any.
        """
        self._context, self._spark, self._sources, self._compression = context, spark, sources, compression
        self._caches = cache

    @classmethod
    def build(cls, resources: Resources) -> UploadActivities:
        """See ActivityGroup."""
        settings = resources.settings
        return cls(resources.context, resources.spark, settings.sources, settings.compression, settings.cache)

    @activity.defn(no_thread_cancel_exception=True)
    def upload_split(self, request: UploadSplit) -> UploadReport:
        """See the contract."""
        about = f"upload {request.repo}/{request.diamond}/{request.split}"
        with errors_as_failures(), spark_job(self._spark, about) as job:
            request = replace(request, source=check_allowed(request.source, self._sources))
            job.progress.phase = "planning"
            before = _last_attempt()
            job.progress.stored = stored_before = self._note_attempt(request, before)
            job.progress.slots = before.slots or job.slots  # cut otherwise, other packs would be made and sent
            planned = time.time_ns()
            tree = open_tree(request.source, self._context)
            plan = make_plan(tree, job.progress.slots)
            check_not_empty(tree, plan)
            job.progress.phase = "uploading"
            job.progress.all_files, job.progress.all_bytes = plan.files, plan.bytes
            job.progress.all_parts = len(plan.parts)
            upload = self._upload(request, plan, planned, job)
            with same_files(on_cluster=job.on_cluster), self._noting_stored(request, job):
                slices = self._store_huge(plan.huge, upload, job)
                upload = replace(upload, unstored=frozenset(one.unstored for one in slices if one.unstored))
                parts = job.run(partial(upload_part, upload=upload), plan.parts)
            lists = [report.listed for report in parts if report.listed is not None]
            written = (upload.list_key(one.index) for one in lists)
            check_written(self._context.vmetadata, written, on_cluster=job.on_cluster)
            stored = stored_before + sum(report.stored for report in (*slices, *parts))
            split = self._record(request, plan, parts, stored)
        return UploadReport(
            split.files,
            split.bytes,
            split.stored,
            split.skipped,
            plan.reserved,
            split.skipped_sample,
            plan.links_followed,
        )

    def _store_huge(self, files: list[SourceFile], upload: Upload, job: SparkJob) -> list[PartReport]:
        """Find the chunks of huge files, a task for each, and then store them, as many tasks as there is work for."""
        if not files:
            return []
        job.progress.phase = "reading huge files"
        slices = [one for found in job.run(partial(find_chunks, upload=upload), files) for one in found]
        job.progress.phase = "uploading"
        job.progress.parts = job.progress.bytes = 0
        job.progress.all_parts += len(slices)
        return job.run(partial(upload_slice, upload=upload), slices)

    def _upload(self, request: UploadSplit, plan: Plan, planned: int, job: SparkJob) -> Upload:
        return Upload(
            _folder(request),
            request.generation,
            plan.digest,
            request.source,
            self._context,
            self._base(request),
            planned,
            self._compression,
            "" if job.on_cluster else self._cache(),  # tasks elsewhere know other disks
        )

    def _cache(self) -> str:
        """The file with what this host remembers of files in this store; none, if it has no cache."""
        if not self._caches:
            return ""
        try:
            return f"{self._caches}/{blake3(require_store(self._context).id.encode()).hexdigest()[:32]}.sqlite"
        except NoStore:
            return ""

    def _base(self, request: UploadSplit) -> BaseBundle | None:
        if request.base is None:
            return None
        try:
            return BaseBundle(get_bundle(self._context, request.repo, request.base))
        except NotFound:  # somebody has deleted it meanwhile
            return None

    def _note_attempt(self, request: UploadSplit, before: Progress) -> int:
        """Let split.yaml say which attempt it is. One that woke up late, when the split has moved on, ends here.

        What was stored before is known by the last heartbeat or, where an attempt could still say so, by split.yaml.
        """
        number, key = activity.info().attempt, keys.split(request.repo, request.diamond, request.split)

        def note(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(split, attempts=max(number, split.attempts), stored=max(before.stored, split.stored))

        if number == 1 and request.generation == 1:
            return 0
        return revise_split(self._context.vmetadata, key, request.generation, note).stored

    @contextmanager
    def _noting_stored(self, request: UploadSplit, job: SparkJob) -> Iterator[None]:
        """Let split.yaml say what an attempt that fails has stored: it is there, and the next one will find it."""
        try:
            yield
        except Exception:
            key = keys.split(request.repo, request.diamond, request.split)
            with suppress(DatamonError):
                revise_split(
                    self._context.vmetadata,
                    key,
                    request.generation,
                    lambda split: replace(split, stored=max(job.progress.stored, split.stored)),
                )
            raise

    def _record(self, request: UploadSplit, plan: Plan, parts: list[PartReport], stored: int) -> Split:
        """Write the lists into split.yaml, while it is running in this very generation."""
        key = keys.split(request.repo, request.diamond, request.split)
        files = sum(report.files for report in parts)
        skipped = plan.skipped + plan.files - files
        sample = sample_of(self._skipped(request, plan)) if skipped else []

        def record(split: Split) -> Split:
            if split.state is not SplitState.RUNNING:
                raise StaleWrite(key)
            return replace(
                split,
                files=files,
                bytes=sum(report.bytes for report in parts),
                stored=stored,
                skipped=skipped,
                skipped_sample=sample,
                attempts=activity.info().attempt,
                plan=plan.digest,
                lists=[report.listed for report in parts if report.listed is not None],
            )

        return revise_split(self._context.vmetadata, key, request.generation, record)

    def _skipped(self, request: UploadSplit, plan: Plan) -> Iterator[Skipped]:
        """What could not be uploaded, and why: first what the plan left out, for nobody else can tell of it again."""
        folder, run = _folder(request), keys.upload_run(request.generation, plan.digest)
        plan.skips.write(self._context.vmetadata, folder, f"{run}plan")
        return read_skipped(self._context.vmetadata, folder, run)


def _folder(request: UploadSplit) -> str:
    return keys.split_folder(request.repo, request.diamond, request.split)


def _last_attempt() -> Progress:
    """How far the attempt before this one got, as far as it could still tell."""
    details = activity.info().heartbeat_details
    return Progress.read(details[0]) if details else Progress()
