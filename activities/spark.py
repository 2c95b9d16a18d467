"""Running work on Spark inside an activity: heartbeats with progress, and a job that stops when Temporal says so."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

from datamon.errors import DatamonError, caught

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

BEAT_SECONDS = 0.5  # calling often is cheap: the worker sends a beat at most as often as it throttles to

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Progress:
    """What a heartbeat carries: shown by the Web UI and by the command."""

    phase: str = "starting"
    files: int = 0
    bytes: int = 0
    parts: int = 0
    all_files: int = 0
    all_bytes: int = 0
    all_parts: int = 0


class SparkJob:
    """One activity's use of the shared Spark."""

    def __init__(self, start: Callable[[], SparkContext], about: str) -> None:
        self._start, self._about = start, about
        self._spark: SparkContext | None = None
        self._counters: list[Accumulator[int]] = []
        info = activity.info()
        self._group = f"{info.workflow_run_id} {info.activity_id} {info.attempt}"
        self.progress = Progress()

    @property
    def spark(self) -> SparkContext:
        """The Spark of this worker; the first call may wait until it has started."""
        if self._spark is None:
            self._spark = self._start()
        return self._spark

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return self.spark.defaultParallelism

    def run(
        self, work: Callable[[Item], Result], items: Sequence[Item], count: Callable[[Result], tuple[int, int]]
    ) -> list[Result]:
        """Do the work on each item in a task of its own. `count` tells (files, bytes) of a result, for the progress."""
        if not items:
            return []
        self._stop_if_told()
        parts, files, size = self._counters = [self.spark.accumulator(0) for _ in range(3)]

        def task(item: Item) -> Result | DatamonError:
            outcome = caught(work, item)
            if not isinstance(outcome, DatamonError):
                counted = count(outcome)
                parts.add(1)
                files.add(counted[0])
                size.add(counted[1])
            return outcome

        self.progress.all_parts = len(items)
        self.spark.setJobGroup(self._group, self._about, interruptOnCancel=True)
        try:
            outcomes = self.spark.parallelize(items, len(items)).map(task).collect()
        except Exception as error:  # noqa: BLE001 - whatever py4j or a dying JVM throws, told in one line
            self._stop_if_told()
            raise ApplicationError(f"Spark: {_gist(error)}", type="SparkFailed") from None
        finally:
            self._read_counters()
        results: list[Result] = []
        for outcome in outcomes:
            if isinstance(outcome, DatamonError):
                raise outcome
            results.append(outcome)
        return results

    def beat(self) -> None:
        """Send the progress, and stop the Spark job if this activity is to end. Called until the activity returns."""
        self._read_counters()
        activity.heartbeat(asdict(self.progress))
        if (activity.is_cancelled() or activity.is_worker_shutdown()) and self._spark is not None:
            self._spark.cancelJobGroup(self._group)

    def _read_counters(self) -> None:
        if self._counters:
            values = [counter.value for counter in self._counters]
            self.progress.parts, self.progress.files, self.progress.bytes = values

    def _stop_if_told(self) -> None:
        if activity.is_cancelled():
            raise CancelledError("stopped")
        if activity.is_worker_shutdown():
            raise ApplicationError(
                "the worker is shutting down; another attempt goes on",
                type="WorkerShutdown",
                category=ApplicationErrorCategory.BENIGN,
            )


@contextmanager
def spark_job(start: Callable[[], SparkContext], about: str) -> Iterator[SparkJob]:
    """A SparkJob whose heart beats on a thread of its own until the block ends."""
    job = SparkJob(start, about)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            job.beat()

    activity.heartbeat(asdict(job.progress))
    context = contextvars.copy_context()  # a heartbeat knows its activity by context
    thread = threading.Thread(target=context.run, args=(beat,), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield job
    finally:
        ended.set()
        thread.join()


def _gist(error: Exception) -> str:
    """The one line of a Spark error that says what happened; the rest is two languages' stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("at ", "File ", "org.apache", "Caused by")
    python = [line for line in lines if ": " in line and not line.startswith(noise)]
    return (python or lines or [type(error).__name__])[-1][:500]
