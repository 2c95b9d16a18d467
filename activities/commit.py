"""Making a bundle: merge the lists of its splits in Spark tasks, then put bundle.yaml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from temporalio import activity

from datamon.activities.cluster_checks import check_written, same_store
from datamon.activities.contracts import commit as contract
from datamon.activities.contracts.commit import BundleReport, GiveUpBundle, MakeBundle
from datamon.activities.failures import errors_as_failures
from datamon.activities.registry import ActivityGroup, Resources
from datamon.activities.spark import Progress, SparkJob, spark_job
from datamon.bundles.catalog import check_not_given_up, get_bundle, give_up_bundle, publish_bundle
from datamon.bundles.model import Bundle, DiamondOrigin
from datamon.core.errors import ConflictsForbidden, NotFound
from datamon.diamonds.commit import merge_task, read_splits
from datamon.diamonds.model import Split
from datamon.lists.reference import ListRef
from datamon.merge.inputs import MergeTask
from datamon.merge.kernel import SAMPLE, Rewrite, assembled, check_part, merge_part, rewrite_lists, work_of
from datamon.merge.modes import ConflictMode
from datamon.merge.ranges import Part
from datamon.stores import keys
from datamon.stores.context import Context

if TYPE_CHECKING:
    from pyspark import SparkContext


class CommitActivities(contract.CommitActivities, ActivityGroup):
    """See the contract."""

    def __init__(self, context: Context, spark: Callable[[], SparkContext]) -> None:
        self._context, self._spark = context, spark

    @classmethod
    def build(cls, resources: Resources) -> CommitActivities:
        """See ActivityGroup."""
        return cls(resources.context, resources.spark)

    @activity.defn(no_thread_cancel_exception=True)
    def make_bundle(self, request: MakeBundle) -> BundleReport:
        """See the contract."""
        with errors_as_failures(), spark_job(self._spark, f"commit {request.repo}/{request.diamond}") as job:
            bundle = self._made_before(request)
            if bundle is None:
                with same_store(self._context.vmetadata, on_cluster=job.on_cluster):
                    bundle = self._make(request, job)
        return BundleReport.of(bundle)

    @activity.defn
    def give_up_bundle(self, request: GiveUpBundle) -> BundleReport | None:
        """See the contract."""
        with errors_as_failures(patient=True):
            made = give_up_bundle(self._context, request.repo, request.bundle)
        return BundleReport.of(made) if made else None

    def _made_before(self, request: MakeBundle) -> Bundle | None:
        """What an earlier attempt published before it could say so."""
        try:
            return get_bundle(self._context, request.repo, request.bundle)
        except NotFound:
            return None

    def _make(self, request: MakeBundle, job: SparkJob) -> Bundle:
        check_not_given_up(self._context, request.repo, request.bundle)
        splits = read_splits(self._context.vmetadata, request.repo, request.diamond, request.splits)
        bundle = self._merge(request, splits, job)
        publish_bundle(self._context, request.repo, bundle)
        return bundle

    def _merge(self, request: MakeBundle, splits: list[Split], job: SparkJob) -> Bundle:
        task = merge_task(splits, request.splits, request.mode, request.order)
        work = work_of(task, self._context)
        parts = [one for one in work if isinstance(one, Part)]
        files, size = sum(split.files for split in splits), sum(split.bytes for split in splits)
        progress = Progress(all_parts=len(parts), all_files=files, all_bytes=size)
        if request.mode is ConflictMode.FORBID:
            job.progress = replace(progress, phase="looking for conflicts")
            self._refuse_conflicts(request, task, parts, job)
        job.progress = replace(progress, phase="merging")
        reports = job.run(partial(merge_part, task=task, context=self._context), parts, attrgetter("cost"))
        written = (_key(one) for report in reports for one in report.lists)
        check_written(self._context.metadata, written, on_cluster=job.on_cluster)
        lists = assembled(work, reports, task, lambda rewrites: self._rewrite(rewrites, task, job))
        conflicts = sum(report.conflicts for report in reports)
        return Bundle(
            id=request.bundle,
            message=request.message,
            created=request.created,
            contributors=list(dict.fromkeys(split.contributor for split in splits)),
            origin=DiamondOrigin(
                diamond=request.diamond,
                mode=request.mode,
                order=request.order,
                splits=request.splits,
                left_out=request.left_out,
            ),
            files=sum(one.count for one in lists),
            bytes=sum(one.bytes for one in lists),
            conflicts=0 if request.mode is ConflictMode.CHECKPOINTS else conflicts,
            checkpoints=conflicts if request.mode is ConflictMode.CHECKPOINTS else 0,
            stored=sum(split.stored for split in splits),
            metadata=request.metadata,
            lists=lists,
        )

    def _rewrite(self, rewrites: list[Rewrite], task: MergeTask, job: SparkJob) -> list[list[ListRef]]:
        job.progress.all_parts += len(rewrites)
        return job.run(partial(rewrite_lists, task=task, context=self._context), rewrites)

    def _refuse_conflicts(self, request: MakeBundle, task: MergeTask, parts: list[Part], job: SparkJob) -> None:
        """Look before writing anything, so that a refused commit leaves nothing behind."""
        reports = job.run(partial(check_part, task=task, context=self._context), parts, attrgetter("cost"))
        count = sum(report.conflicts for report in reports)
        if count:
            sample = [name for report in reports for name in report.sample]
            raise ConflictsForbidden(request.diamond, count, sample[:SAMPLE])


def _key(reference: ListRef) -> str:
    return keys.file_list(reference.digest)
