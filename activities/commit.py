"""Making a bundle: merge the lists of its splits in Spark tasks, then put bundle.yaml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from temporalio import activity

from activities.sharing import check_written, same_store
from activities.spark import Progress, SparkJob, spark_job
from activities.wire import wire_errors
from datamon import catalog, keys
from datamon.commit import (
    SAMPLE,
    MergeTask,
    check_range,
    merge_range,
    ranges_to_merge,
    read_splits,
)
from datamon.errors import ConflictsForbidden, NotFound
from datamon.ids import BundleId, DiamondId, RepoName
from datamon.model import Bundle, ConflictMode, LeftOut, Order, Origin, Split, TakenSplit
from datamon.ranges import NumberedRange
from datamon.stores import Context

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class MakeBundle:
    """A bundle to be made of splits that are done."""

    repo: RepoName
    diamond: DiamondId
    bundle: BundleId
    message: str
    created: str
    mode: ConflictMode
    order: Order
    splits: list[TakenSplit]
    left_out: list[LeftOut]


@dataclass(frozen=True)
class BundleReport:
    """What a bundle came to."""

    files: int
    bytes: int
    conflicts: int

    @classmethod
    def of(cls, bundle: Bundle) -> BundleReport:
        """The report on a bundle that exists."""
        return cls(bundle.files, bundle.bytes, bundle.conflicts + bundle.checkpoints)


@dataclass(frozen=True)
class GiveUpBundle:
    """A bundle whose making failed."""

    repo: RepoName
    bundle: BundleId


class CommitActivities:
    """Metadata only: no content is read or written."""

    def __init__(self, context: Context, spark: Callable[[], SparkContext]) -> None:
        self._context, self._spark = context, spark

    @activity.defn(no_thread_cancel_exception=True)
    def make_bundle(self, request: MakeBundle) -> BundleReport:
        """Merge, then publish. Run again, it finds its own lists and its own bundle.yaml, and answers the same."""
        with wire_errors(), spark_job(self._spark, f"commit {request.repo}/{request.diamond}") as job:
            bundle = self._made_before(request)
            if bundle is None:
                with same_store(self._context.vmetadata, on_cluster=job.on_cluster):
                    bundle = self._make(request, job)
        return BundleReport.of(bundle)

    @activity.defn
    def give_up_bundle(self, request: GiveUpBundle) -> BundleReport | None:
        """See to it that no attempt that wakes up late makes the bundle; or report on it, if one already has."""
        with wire_errors(patient=True):
            made = catalog.give_up_bundle(self._context, request.repo, request.bundle)
        return BundleReport.of(made) if made else None

    def _made_before(self, request: MakeBundle) -> Bundle | None:
        """What an earlier attempt published before it could say so."""
        try:
            return catalog.get_bundle(self._context, request.repo, request.bundle)
        except NotFound:
            return None

    def _make(self, request: MakeBundle, job: SparkJob) -> Bundle:
        catalog.check_not_given_up(self._context, request.repo, request.bundle)
        splits = read_splits(self._context.vmetadata, request.repo, request.diamond, request.splits)
        bundle = self._merge(request, splits, job)
        catalog.publish_bundle(self._context, bundle)
        return bundle

    def _merge(self, request: MakeBundle, splits: list[Split], job: SparkJob) -> Bundle:
        task = MergeTask(
            request.repo,
            request.diamond,
            request.bundle,
            request.mode,
            request.order,
            request.splits,
            {split.id: split.lists for split in splits},
        )
        numbered = ranges_to_merge(task, self._context)
        files, size = sum(split.files for split in splits), sum(split.bytes for split in splits)
        work = Progress(all_parts=len(numbered), all_files=files, all_bytes=size)
        if request.mode is ConflictMode.FORBID:
            job.progress = replace(work, phase="looking for conflicts")
            self._refuse_conflicts(task, numbered, job)
        job.progress = replace(work, phase="merging")
        reports = job.run(partial(merge_range, task=task, context=self._context), numbered)
        lists = [info for report in reports for info in report.lists]
        written = (keys.bundle_files(request.repo, request.bundle, info.index) for info in lists)
        check_written(self._context.metadata, written, on_cluster=job.on_cluster)
        conflicts = sum(report.conflicts for report in reports)
        return Bundle(
            id=request.bundle,
            repo=request.repo,
            message=request.message,
            created=request.created,
            contributors=list(dict.fromkeys(split.contributor for split in splits)),
            parents=[],
            diamond=Origin(
                id=request.diamond,
                mode=request.mode,
                order=request.order,
                splits=request.splits,
                left_out=request.left_out,
            ),
            files=sum(report.files for report in reports),
            bytes=sum(report.bytes for report in reports),
            conflicts=0 if request.mode is ConflictMode.CHECKPOINTS else conflicts,
            checkpoints=conflicts if request.mode is ConflictMode.CHECKPOINTS else 0,
            lists=lists,
        )

    def _refuse_conflicts(self, task: MergeTask, ranges: list[NumberedRange], job: SparkJob) -> None:
        """Look before writing anything, so that a refused commit leaves nothing behind."""
        reports = job.run(partial(check_range, task=task, context=self._context), ranges)
        count = sum(report.conflicts for report in reports)
        if count:
            sample = [name for report in reports for name in report.sample]
            raise ConflictsForbidden(task.diamond, count, sample[:SAMPLE])
