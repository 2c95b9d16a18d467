"""Running work on Spark inside an activity: heartbeats with progress, and a job that stops when Temporal says so."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Self, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

from datamon.activities.heartbeat import heartbeating
from datamon.core.errors import DatamonError, error_as_value
from datamon.core.process_tuning import tune_process
from datamon.core.task_progress import ProgressAddress, ProgressReceiver, ProgressSender

if TYPE_CHECKING:
    from pyspark import SparkContext

PACE_SECONDS = 10
TASKS_A_SLOT = 16  # of this machine: more would not balance better, and each costs the JVM 10 ms

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
    stored: int = 0  # bytes that were new to the store
    rate: int = 0  # bytes a second, over the last few seconds
    slots: int = 0  # how many tasks at a time the source was cut for

    @classmethod
    def read(cls, details: object) -> Self:
        """The progress that a heartbeat carried; an older or a newer version may have sent it."""
        known = {field.name for field in fields(cls)}
        return cls(
            **{name: value for name, value in details.items() if name in known} if isinstance(details, dict) else {}
        )


class SparkJob:
    """One activity's use of the shared Spark."""

    def __init__(self, start: Callable[[], SparkContext], about: str) -> None:
        self._start, self._about = start, about
        self._spark: SparkContext | None = None
        self._receiver: ProgressReceiver | None = None
        self._before = Progress()  # the progress of earlier runs of this job
        self._pace = _Pace()
        info = activity.info()
        self._group = f"{info.workflow_run_id} {info.activity_id} {info.attempt}"
        self.progress = Progress()

    @property
    def spark(self) -> SparkContext:
        """The Spark of this worker; the first call may wait until it has started."""
        if self._spark is None:
            try:
                self._spark = self._start()
            except Exception as error:  # noqa: BLE001 - a JVM that ends while it starts raises many kinds of error
                self._stop_if_asked()
                raise ApplicationError(f"Spark did not start: {_short_reason(error)}", type="SparkFailed") from None
        return self._spark

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return self.spark.defaultParallelism

    @property
    def on_cluster(self) -> bool:
        """Whether tasks run elsewhere than in this worker."""
        return not (self.spark.master or "").startswith("local")

    def run(
        self, work: Callable[..., Result], items: Sequence[Item], cost: Callable[[Item], int] = lambda _: 0
    ) -> list[Result]:
        """Do the work on each item, in tasks of one or a few. It is called with the item and `report_progress`.

        The items that cost most come first, so that in the end no core waits long for another.
        """
        if not items:
            return []
        self._stop_if_asked()
        address = self._receive_progress()

        def task(numbered: tuple[int, Item]) -> Result | DatamonError:
            tune_process()
            sender = ProgressSender(address, numbered[0])
            outcome = error_as_value(work, numbered[1], report_progress=sender)
            sender.end()
            return outcome

        self.spark.setJobGroup(self._group, self._about, interruptOnCancel=True)
        try:
            tasks = len(items) if self.on_cluster else min(len(items), TASKS_A_SLOT * self.slots)
            numbered = sorted(enumerate(items), key=lambda one: -cost(one[1]))
            outcomes = self.spark.parallelize(numbered, tasks).map(task).collect()
        except Exception as error:  # noqa: BLE001 - whatever py4j or a dying JVM throws, said in one line
            self._stop_if_asked()
            raise ApplicationError(f"Spark: {_short_reason(error)}", type="SparkFailed") from None
        finally:
            self._update_progress()
            self.close()
        results: dict[int, Result] = {}
        for (number, _), outcome in zip(numbered, outcomes, strict=True):
            if isinstance(outcome, DatamonError):
                raise outcome
            results[number] = outcome
        return [results[number] for number in range(len(items))]

    def heartbeat(self) -> None:
        """Send the progress, and stop the Spark job if this activity is to end. Called until the activity returns."""
        self._update_progress()
        self.progress.rate = self._pace.of(self.progress.bytes)
        activity.heartbeat(asdict(self.progress))
        if (activity.is_cancelled() or activity.is_worker_shutdown()) and self._spark is not None:
            self._spark.cancelJobGroup(self._group)

    def close(self) -> None:
        """Stop receiving reports of tasks."""
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None

    def _receive_progress(self) -> ProgressAddress | None:
        """Begin to receive the progress of the next run, at the address by which Spark itself reaches us."""
        self._before = replace(self.progress)
        host = self.spark.getConf().get("spark.driver.host")
        try:
            self._receiver = ProgressReceiver(host or "127.0.0.1", is_here=not self.on_cluster)
        except OSError:
            return None
        return self._receiver.address

    def _update_progress(self) -> None:
        receiver = self._receiver
        if receiver is not None:
            parts, files, size, stored = receiver.totals()
            now, before = self.progress, self._before
            now.parts, now.files = before.parts + parts, before.files + files
            done = before.bytes + size
            now.bytes = min(done, now.all_bytes) if now.all_bytes else done  # a part may report its slices again
            now.stored = before.stored + stored

    def _stop_if_asked(self) -> None:
        if activity.is_cancelled():
            raise CancelledError("stopped")
        if activity.is_worker_shutdown():
            raise ApplicationError(
                "the worker is shutting down; another attempt will continue",
                type="WorkerShutdown",
                category=ApplicationErrorCategory.BENIGN,
            )


@contextmanager
def spark_job(start: Callable[[], SparkContext], about: str) -> Iterator[SparkJob]:
    """A SparkJob that sends heartbeats on a thread of its own until the block ends."""
    job = SparkJob(start, about)
    try:
        with heartbeating(job.heartbeat):
            yield job
    finally:
        job.close()


class _Pace:
    """Bytes a second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, size: int) -> int:
        now = time.monotonic()
        if self._seen and size < self._seen[-1][1]:  # something else has begun
            self._seen.clear()
        self._seen.append((now, size))
        while now - self._seen[0][0] > PACE_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return int((size - before) / (now - then)) if now > then else 0


def _short_reason(error: Exception) -> str:
    """The one line of a Spark error that says what happened; the rest is two languages' stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("at ", "File ", "org.apache", "Caused by")
    python = [line for line in lines if ": " in line and not line.startswith(noise)]
    return (python or lines or [type(error).__name__])[-1][:500]
