"""Making a bundle: merge the lists of its splits in Spark tasks, then put bundle.yaml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from temporalio import activity

from activities.spark import SparkJob, spark_job
from activities.wire import wire_errors
from datamon import descriptors, keys
from datamon.commit import (
    SAMPLE,
    MergeTask,
    NumberedRange,
    check_range,
    cut_names,
    merge_range,
    read_splits,
)
from datamon.errors import AlreadyExists, ConflictsForbidden, NotFound
from datamon.ids import BundleId, DiamondId, RepoName
from datamon.model import Bundle, ConflictMode, LeftOut, Order, Origin, Split, TakenSplit
from datamon.stores import Context, create_same

if TYPE_CHECKING:
    from pyspark import SparkContext

RANGE_ENTRIES = 20_000  # what one task merges in a fifth of a second
FEW_RANGES, FEW_ENTRIES = 4, 4_000  # a small merge is spread over a few cores, as far as that saves any time
MAX_RANGES = 10_000


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


class CommitActivities:
    """Metadata only: no content is read or written."""

    def __init__(self, context: Context, spark: Callable[[], SparkContext]) -> None:
        self._context, self._spark = context, spark

    @activity.defn(no_thread_cancel_exception=True)
    def make_bundle(self, request: MakeBundle) -> BundleReport:
        """Merge, then publish. Run again, it finds its own lists and its own bundle.yaml, and answers the same."""
        with wire_errors(), spark_job(self._spark, f"commit {request.repo}/{request.diamond}") as job:
            bundle = self._made_before(request) or self._make(request, job)
        return BundleReport(bundle.files, bundle.bytes, bundle.conflicts + bundle.checkpoints)

    def _made_before(self, request: MakeBundle) -> Bundle | None:
        """What an earlier attempt published before it could say so."""
        try:
            return descriptors.read(Bundle, self._context.metadata, keys.bundle(request.repo, request.bundle))
        except NotFound:
            return None

    def _make(self, request: MakeBundle, job: SparkJob) -> Bundle:
        splits = read_splits(self._context.vmetadata, request.repo, request.diamond, request.splits)
        bundle = self._merge(request, splits, job)
        self._publish(bundle)
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
        lists = [info for split in splits for info in split.lists]
        # By what there is to merge alone: another worker that takes over must cut, and so write, the same.
        entries = sum(info.count for info in lists)
        ranges = max(1, min(MAX_RANGES, entries // RANGE_ENTRIES), min(FEW_RANGES, entries // FEW_ENTRIES))
        numbered = [NumberedRange(number, names) for number, names in enumerate(cut_names(lists, ranges))]
        if request.mode is ConflictMode.FORBID:
            self._refuse_conflicts(task, numbered, job)
        job.progress.phase, job.progress.all_parts = "merging", len(numbered)
        reports = job.run(partial(merge_range, task=task, context=self._context), numbered)
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
            lists=[info for report in reports for info in report.lists],
        )

    def _refuse_conflicts(self, task: MergeTask, ranges: list[NumberedRange], job: SparkJob) -> None:
        """Look before writing anything, so that a refused commit leaves nothing behind."""
        job.progress.phase, job.progress.all_parts = "looking for conflicts", len(ranges)
        reports = job.run(partial(check_range, task=task, context=self._context), ranges)
        count = sum(report.conflicts for report in reports)
        if count:
            sample = [name for report in reports for name in report.sample]
            raise ConflictsForbidden(task.diamond, count, sample[:SAMPLE])

    def _publish(self, bundle: Bundle) -> None:
        """Put bundle.yaml. From here on the bundle exists."""
        try:
            create_same(self._context.metadata, keys.bundle(bundle.repo, bundle.id), descriptors.dump(bundle))
        except AlreadyExists:
            raise AlreadyExists("bundle", bundle.id) from None
