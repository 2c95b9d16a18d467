"""What a diamond remembers, and how it decides on messages: plain rules over plain values.

This is the state of DiamondWorkflow. It decides what is accepted and what is refused; the workflow around it only
carries that out. Nothing here calls Temporal, so all of it can be tested without a server.
"""

from __future__ import annotations

import heapq
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice

import msgspec

from datamon.activities.contracts.recovery import TakenUp
from datamon.bundles.metadata import check_metadata
from datamon.bundles.model import LeftOut, TakenSplit
from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage, DatamonError, NotFound, Remedy, WrongState
from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId, label_name, split_id
from datamon.core.instants import seconds_between
from datamon.core.text import REASON_BYTES, shortened
from datamon.diamonds.model import Diamond, DiamondState, SplitState, ended
from datamon.diamonds.selection import check_enough, left_out_splits, taken_splits, too_few
from datamon.stores import keys
from datamon.workflows.common.names import ANYWHERE, TASK_QUEUE, host_queue, upload_queue
from datamon.workflows.common.options import Options
from datamon.workflows.common.refusals import Refusal, remember
from datamon.workflows.diamonds.messages import (
    NOBODY,
    AddSplit,
    CancelRequest,
    CommitAnswer,
    CommitOutcome,
    CommitRequest,
    DiamondStatus,
    FailedSplit,
    SplitReport,
    SplitStatus,
)
from datamon.workflows.diamonds.split_rows import SplitIndex, SplitRow, weight_of

ADDED_AGAIN = "it was added again"  # why a run of a split no longer counts
FAILURES = 5  # failed splits that a status names
MAX_QUEUE = 300  # bytes of the name of a task queue, which has the host's in it; the server takes 1,000
MAX_WEIGHT = 1_000_000  # bytes of text that a diamond remembers of its splits; packed, they must fit a payload
MAX_SPLITS = 2_500  # if all are left out with a long reason, the answer has 1.4 MB; a payload ends at 2 MiB


_rows = msgspec.json.Decoder(dict[SplitId, SplitRow])


@dataclass
class DiamondRecord:
    """Everything about a diamond: the workflow's input, its state, and what continue-as-new carries over."""

    repo: RepoName
    diamond: DiamondId
    contributor: Contributor
    tag: str = ""
    options: Options = field(default_factory=Options)
    state: DiamondState = DiamondState.INITIALIZED
    created: str = ""
    revision: int = 0
    added: int = 0
    splits: dict[SplitId, SplitRow] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)  # by split id, the newest of them
    commit: CommitRequest | None = None
    deadline: float = 0  # seconds since the epoch, after which the commit does not wait any longer; 0 is never
    cancel: CancelRequest | None = None
    failed_commits: dict[str, Refusal] = field(default_factory=dict)  # by request, the newest of them
    reason: str = ""
    bundle: BundleId | None = None
    answer: CommitAnswer | None = None
    making: BundleId | None = None  # what the commit under way will make
    recovering: bool = False  # nothing but names so far: the rest is to be taken from the store
    server: str = ""
    epoch: str = ""
    opening: str = ""  # the request that it was opened by
    metadata: dict[str, str] = field(default_factory=dict)  # the user's own; its bundle has it too
    recovered_label: str = ""  # of the commit that had made its bundle when the diamond was lost
    recovered_request: str = ""  # and its request
    rejected_message: Refusal | None = None  # the newest message that could not be understood
    packed: str = ""  # `splits`, on the way to the next run; see `pack`

    def __post_init__(self) -> None:
        if self.packed:
            self.splits, self.packed = _rows.decode(zlib.decompress(b85decode(self.packed))), ""
        self.index = SplitIndex()  # not a field: it is made from the rows, and does not travel
        for split, row in self.splits.items():
            self.index.enter(split, row)

    def pack(self) -> DiamondRecord:
        """The record as it travels to the next run of the workflow.

        Temporal's converter would take a second to read 2,000 splits, and a workflow that does not yield for two is
        taken for dead. Packed, they take 25 ms, and an eighth of the space.
        """
        packed = copy(self)
        packed.splits, packed.packed = {}, b85encode(zlib.compress(msgspec.json.encode(self.splits))).decode()
        return packed

    @contextmanager
    def changing(self, split: SplitId) -> Iterator[SplitRow]:
        """The row of a split, to be changed in the block."""
        row = self.splits[split]
        self.index.leave(split, row)
        try:
            yield row
        finally:
            self.index.enter(split, row)

    # Adding

    def completed(self, add: AddSplit, new_id: Callable[[], str]) -> AddSplit:
        """An add, completed by what a person who sends it by hand leaves out. A split that runs again keeps its tag."""
        known = self.splits.get(add.split)
        return replace(
            add,
            split=add.split or SplitId(new_id()),
            request=add.request or new_id(),
            queue=add.queue or upload_queue(add.source, add.host),
            host=add.host or (ANYWHERE if add.source.is_remote else ""),
            contributor=self.contributor if add.contributor == NOBODY else add.contributor,
            tag=add.tag or (known.tag if known is not None else "") or add.host,
        )

    def add(self, add: AddSplit, now: str) -> DatamonError | None:
        """Take a split on, or remember why not. The same request twice counts once, unless what it added has failed."""
        known = self.splits.get(add.split)
        if known is not None and known.request == add.request and known.state is not SplitState.FAILED:
            return None
        try:
            self._check_add(add, known)
        except DatamonError as error:
            self._refuse(add, error)
            return error
        self._accept(add, known, now)
        return None

    def _check_add(self, add: AddSplit, known: SplitRow | None) -> None:
        split_id(add.split)
        problem = self._problem(add)
        if problem:
            raise BadUsage(problem)
        if not add.source.path or add.queue == host_queue(""):
            raise BadUsage("an add needs a `path`, and the `host` it is on unless it is an s3:// URL")
        self.check_open("no split can be added any more")
        if known is None and len(self.splits) >= MAX_SPLITS:
            refused = f"it holds {MAX_SPLITS:,} splits; put more files into each"
            raise WrongState("diamond", self.diamond, "full", refused)
        if known is None and add.must_exist:
            raise NotFound("split", add.split, Remedy.OMIT_OR_CREATE_SPLIT_ID)
        if known is not None and known.state is SplitState.DONE:
            raise WrongState("split", add.split, known.state, "it cannot run again", Remedy.ADD_NEW_SPLIT)

    def _problem(self, add: AddSplit) -> str:
        """What is wrong with an add; only one that was sent by hand can have such a problem."""
        if add.queue != TASK_QUEUE and not add.queue.startswith(host_queue("")):
            return f"{add.queue[:100]!r} is not a task queue of datamon; leave `queue` out"
        if len(add.queue.encode()) > MAX_QUEUE:
            return f"the `host` of an add has more than {MAX_QUEUE} bytes"
        files = add.source.files
        if files and not keys.is_split_names(files, self.repo, self.diamond, add.split):
            return "`files` is not the key of a list of names of this split; leave it out"
        if self.index.weight + weight_of(add) > MAX_WEIGHT:
            return f"paths, tags, filters and contributors of all splits have more than {MAX_WEIGHT:,} bytes together"
        return ""

    def _accept(self, add: AddSplit, known: SplitRow | None, now: str) -> None:
        self.added += 1
        if known is None:
            self.splits[add.split] = SplitRow(self.added, add.request, now)
            self.index.enter(add.split, self.splits[add.split])
        with self.changing(add.split) as row:
            row.position, row.request, row.waiting, row.tag = self.added, add.request, add, add.tag
            row.added = now
            row.state, row.reason, row.started = SplitState.RUNNING, "", False
            if row.open:
                row.superseded, row.stop = True, ADDED_AGAIN
        self.refused.pop(add.split, None)

    def _refuse(self, add: AddSplit, error: DatamonError) -> None:
        remember(self.refused, add.split, Refusal.of(add.request, error))

    def report(self, report: SplitReport, now: str = "") -> None:
        """Record how a split ended. A report of an older generation, or from before a recovery, is ignored."""
        row = self.splits.get(report.split)
        if row is None or not row.open or (row.generation, self.epoch) != (report.generation, report.epoch):
            return
        if report.state is SplitState.RUNNING:  # no split reports that
            return
        with self.changing(report.split):
            row.open, row.stop = False, ""
            if not row.superseded:
                row.state, row.reason = report.state, shortened(report.reason, REASON_BYTES)
                row.files, row.bytes = report.files, report.bytes
                row.took = seconds_between(row.since, now)

    def ready(self) -> list[SplitId]:
        """The splits to start now: those that were added first, as far as there is room in the window."""
        room = self.options.window - len(self.index.open)
        ready = self.index.ready
        return heapq.nsmallest(room, ready, key=lambda split: ready[split].position) if room > 0 else []

    def begin(self, split: SplitId, now: str = "") -> AddSplit | None:
        """Count a split as running in its next generation. Returns what to upload, if there still is anything."""
        with self.changing(split) as row:
            add = row.waiting
            if add is not None:
                row.generation, row.open, row.waiting, row.superseded = row.generation + 1, True, None, False
                row.since, row.took = now, 0
        return add

    def drop_waiting(self, reason: str) -> dict[SplitId, AddSplit]:
        """Fail the splits that were never started."""
        dropped = {split: row.waiting for split, row in self.in_line() if row.waiting is not None}
        for split in dropped:
            with self.changing(split) as row:
                row.waiting, row.state, row.reason = None, SplitState.FAILED, shortened(reason, REASON_BYTES)
        return dropped

    # Taking up what the store says

    def restore(self, taken: TakenUp) -> None:
        """Become the diamond that was published, with everything settled that was under way."""
        diamond = taken.diamond
        self.state, self.created, self.revision = diamond.state, diamond.created, diamond.revision
        self.tag, self.contributor, self.reason = diamond.tag, diamond.contributor, diamond.reason
        self.epoch, self.opening, self.metadata = diamond.epoch, diamond.opening, diamond.metadata
        for number, split in enumerate(taken.splits, 1):
            self.splits[split.id] = SplitRow.restored(split, number)
            self.index.enter(split.id, self.splits[split.id])
        self.added = max((row.position for row in self.splits.values()), default=0)
        if taken.made is not None and diamond.making is not None:
            made = taken.made
            self.bundle, self.recovered_label, self.recovered_request = diamond.making, diamond.label, diamond.request
            self.answer = CommitAnswer("", diamond.making, made.files, made.bytes, made.conflicts, self.left_out())
        if diamond.state is DiamondState.CANCELING:
            self.cancel = CancelRequest(diamond.request, "canceled, and taken up again")

    # Committing and canceling

    def check_open(self, refused: str) -> None:
        """Raise WrongState, unless the diamond can still change."""
        if self.recovering:
            raise WrongState("diamond", self.diamond, "being recovered", "try again in a moment")
        state = DiamondState.CANCELING if self.cancel is not None and not self.state.ended else self.state
        if state is not DiamondState.INITIALIZED:
            raise ended(self.diamond, state, self.bundle, refused)

    def check_commit(self, request: CommitRequest) -> None:
        """Raise an error if a commit must be refused at once."""
        if self.commit is not None and not self.state.ended and not self._gives_way(request):
            waits = ", and waits for splits; a commit that does not wait replaces it" if self._is_waiting() else ""
            raise WrongState("diamond", self.diamond, DiamondState.COMMITTING, f"another commit was first{waits}")
        self.check_open("it cannot be committed any more")
        if not request.message.strip():
            raise BadUsage("a commit needs a `message`: say in a sentence what this version is")
        if request.label:
            label_name(request.label)
        check_metadata(self.metadata | request.metadata)
        if not request.wait:
            self.check_enough(request)

    def _gives_way(self, request: CommitRequest) -> bool:
        """A commit that does not wait replaces one that still waits: else a wrong number of splits would block all."""
        return self._is_waiting() and not request.wait

    def _is_waiting(self) -> bool:
        waits = self.commit is not None and self.commit.wait and not self.may_commit()
        return waits and self.state is DiamondState.INITIALIZED

    def accept_commit(self, request: CommitRequest, time: float = 0) -> None:
        """The commit to carry out next. `time`: seconds since the epoch."""
        if self.commit is not None:
            gone = WrongState("diamond", self.diamond, DiamondState.COMMITTING, "a commit that did not wait was faster")
            self.fail_commit(self.commit, gone)
        self.commit = request
        self.failed_commits.pop(request.request, None)  # it failed before, and is tried again
        self.deadline = time + request.timeout_seconds if request.wait and request.timeout_seconds else 0

    def give_up_waiting(self) -> None:
        """Fail the commit, because it has waited as long as it was to wait."""
        request = self.commit
        if request is not None:
            counts, failures = self.index.states, [str(one) for one in self.failures()]
            late = too_few(self.diamond, counts, request.splits, failures, request.timeout_seconds)
            self.fail_commit(request, late)

    def check_enough(self, request: CommitRequest) -> None:
        """Raise NothingToCommit if fewer splits are done than the commit needs."""
        check_enough(self.diamond, self.index.states, request.splits, [str(one) for one in self.failures()])

    def may_commit(self) -> bool:
        """Whether there is a commit that need not wait, or no longer needs to.

        If a number of splits is given, only done ones count: a node that failed may be restarted, and add its split
        again.
        """
        if self.commit is None:
            return False
        if not self.commit.wait:
            return True
        needed = self.commit.splits
        enough = self.splits if needed is None else self.count(SplitState.DONE) >= needed
        return bool(enough) and self.count(SplitState.RUNNING) == 0

    def knows_commit(self, request: CommitRequest) -> bool:
        """Whether this very request starts nothing new: it is being carried out, or is sent again for its answer."""
        return self.is_under_way(request) or (request.again and self.has_answer(request))

    def is_under_way(self, request: CommitRequest) -> bool:
        """Whether this very request is being carried out, or has made its bundle."""
        answered = self.answer is not None and self.answer.request == request.request
        return answered or (self.commit is not None and self.commit.request == request.request)

    def has_answer(self, request: CommitRequest) -> bool:
        """Whether this very request has an outcome."""
        answered = self.answer is not None and self.answer.request == request.request
        return answered or request.request in self.failed_commits

    def fail_commit(self, request: CommitRequest, error: DatamonError) -> None:
        """End a commit that failed. The next one may succeed."""
        self.refuse_commit(request, error)
        self.reason = str(error)
        if self.commit is not None and self.commit.request == request.request:
            self.commit, self.deadline = None, 0

    def refuse_commit(self, request: CommitRequest, error: DatamonError) -> None:
        """Remember why a commit failed or was refused, for whoever asks."""
        remember(self.failed_commits, request.request, Refusal.of(request.request, error))

    def outcome(self, request: str) -> CommitOutcome:
        """What became of a request to commit."""
        if self.answer is not None and self.answer.request == request:
            return CommitOutcome(known=True, answer=self.answer)
        refused = self.failed_commits.get(request)
        waiting = self.commit is not None and self.commit.request == request
        return CommitOutcome(known=waiting or refused is not None, refused=refused)

    # Describing

    def count(self, state: SplitState) -> int:
        """How many splits are in a state."""
        return self.index.states[state]

    def failures(self) -> list[FailedSplit]:
        """The splits that failed last."""
        last = list(islice(reversed(self.index.failed.items()), FAILURES))
        return [FailedSplit(split, row.tag, row.reason) for split, row in reversed(last)]

    def slowest(self) -> tuple[SplitId, SplitRow] | None:
        """The split that has been running for the longest time; if none runs, the one that took longest."""
        if self.index.open:
            return min(self.index.open.items(), key=lambda item: item[1].since)
        timed = (item for item in self.splits.items() if item[1].took)
        return max(timed, key=lambda item: item[1].took, default=None)

    def in_line(self) -> list[tuple[SplitId, SplitRow]]:
        """The splits in the order they were added."""
        return sorted(self.splits.items(), key=lambda item: item[1].position)

    def taken(self) -> list[TakenSplit]:
        """The splits that a commit takes."""
        return taken_splits(self.in_line())

    def left_out(self) -> list[LeftOut]:
        """The splits that a commit does not take, and why."""
        return left_out_splits(self.in_line())

    def status(self) -> DiamondStatus:
        """The diamond in numbers."""
        return DiamondStatus(
            repo=self.repo,
            diamond=self.diamond,
            state=self.state,
            created=self.created,
            splits={state: self.count(state) for state in SplitState},
            waiting=self.index.waiting,
            files=self.index.files,
            bytes=self.index.bytes,
            committing=self.commit is not None,
            reason=self.reason,
            bundle=self.bundle,
            failures=self.failures(),
        )

    def split(self, split: SplitId) -> SplitStatus:
        """One split, and why the newest add under its id was refused."""
        row, refused = self.splits.get(split), self.refused.get(split)
        if row is None:
            return SplitStatus(split, known=False, refused=refused)
        return SplitStatus(
            split=split,
            known=True,
            request=row.request,
            state=row.state,
            generation=row.generation,
            started=row.started,
            files=row.files,
            bytes=row.bytes,
            reason=row.reason,
            tag=row.tag,
            refused=refused,
            position=row.position,
            created=row.created,
            waiting=row.waiting,
        )

    def _label(self) -> str:
        if not (self.making or self.bundle):
            return ""
        return self.commit.label if self.commit is not None else self.recovered_label

    def _settled_by(self) -> str:
        match self.state:
            case DiamondState.COMMITTING | DiamondState.DONE:
                return self.commit.request if self.commit is not None else self.recovered_request
            case DiamondState.CANCELING | DiamondState.CANCELED:
                return self.cancel.request if self.cancel is not None else ""
        return ""

    def descriptor(self, now: str) -> Diamond:
        """The next revision of diamond.yaml."""
        return Diamond(
            id=self.diamond,
            repo=self.repo,
            state=self.state,
            contributor=self.contributor,
            created=self.created,
            updated=now,
            revision=self.revision + 1,
            tag=self.tag,
            mode=self.commit.mode if self.commit else None,
            ended=now if self.state.ended else None,
            making=self.making,
            label=self._label(),
            bundle=self.bundle,
            opening=self.opening,
            metadata=self.metadata,
            request=self._settled_by(),
            splits={state: self.count(state) for state in SplitState},
            reason=self.reason,
            server=self.server,
            epoch=self.epoch,
        )
