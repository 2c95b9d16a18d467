"""What workflows count, for the metrics of the worker they run on. Nothing is counted twice when they replay."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from datamon.core.ids import RepoName
from datamon.diamonds.model import SplitState


def count_split(repo: RepoName, state: SplitState) -> None:
    """Count a split that has entered a state."""
    counter = workflow.metric_meter().create_counter("datamon_splits", "Splits that entered a state.")
    counter.add(1, {"repo": repo, "state": state.value})


def count_upload(repo: RepoName, files: int, stored: int, known: int) -> None:
    """Count the files that a split has uploaded, the bytes that were new to the store, and those it had already."""
    meter, of = workflow.metric_meter(), {"repo": repo}
    meter.create_counter("datamon_files", "Files that were uploaded.").add(files, of)
    meter.create_counter("datamon_stored_bytes", "Bytes that were new to the store.").add(stored, of)
    meter.create_counter("datamon_deduplicated_bytes", "Bytes that the store had already.").add(known, of)


def count_commit(repo: RepoName, took: timedelta, conflicts: int) -> None:
    """Count a bundle that was made."""
    meter = workflow.metric_meter()
    seconds = meter.create_histogram_float("datamon_commit_seconds", "From the end of all waiting to the bundle.")
    seconds.record(took.total_seconds(), {"repo": repo})
    lost = meter.create_counter("datamon_conflicts", "Versions that lost and differ.")
    lost.add(conflicts, {"repo": repo})
