"""What a diamond remembers, and what it makes of what it is told: plain rules over plain values.

This is the state of DiamondWorkflow. It decides what is accepted and what is refused; the workflow around it
only carries that out. Nothing here touches Temporal, so all of it can be tried by calling it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datamon.errors import DatamonError, NotFound, NothingToCommit, WrongState
from datamon.ids import BundleId, DiamondId, RepoName, SplitId, split_id
from datamon.model import Contributor, Diamond, DiamondState, LeftOut, SplitState, TakenSplit
from workflows.messages import (
    AddSplit,
    CancelRequest,
    CommitAnswer,
    CommitRequest,
    DiamondStatus,
    Options,
    Refusal,
    SplitReport,
    SplitStatus,
)

REFUSALS = 100  # refused adds and failed commits that are remembered, for the clients that sent them
MAX_SPLITS = 2_500  # the record is one payload of continue-as-new, which ends at 2 MiB; a waiting split takes 630 bytes


@dataclass
class SplitRow:
    """What a diamond remembers of a split."""

    position: int
    request: str
    created: str
    state: SplitState = SplitState.RUNNING
    generation: int = 0
    waiting: AddSplit | None = None  # accepted, and its workflow is not started yet
    open: bool = False  # its workflow runs, or is about to
    started: bool = False  # its workflow is known to the server
    superseded: bool = False  # it was added again, so how the run that is still open ends does not matter
    stop: str = ""  # its workflow is to be told to stop, and why
    files: int = 0
    bytes: int = 0
    reason: str = ""
    tag: str = ""


@dataclass
class DiamondRecord:
    """A diamond, whole: the workflow's input, its state, and what continue-as-new carries over."""

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
    refused: dict[str, Refusal] = field(default_factory=dict)  # by split id, the newest REFUSALS of them
    commit: CommitRequest | None = None
    cancel: CancelRequest | None = None
    failed_commits: dict[str, Refusal] = field(default_factory=dict)  # by request, the newest REFUSALS of them
    reason: str = ""
    bundle: BundleId | None = None  # the one that is being made, or was
    answer: CommitAnswer | None = None

    # Adding

    def add(self, add: AddSplit, now: str) -> DatamonError | None:
        """Take a split on, or remember why not. The same request twice counts once."""
        known = self.splits.get(add.split)
        if known is not None and known.request == add.request:
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
        self.check_open("no split can be added any more")
        if known is None and len(self.splits) >= MAX_SPLITS:
            refused = f"it holds {MAX_SPLITS:,} splits; put more files into each"
            raise WrongState("diamond", self.diamond, "full", refused)
        if known is None and add.must_exist:
            raise NotFound("split", add.split, "leave --split out to get an id, or choose one with --create")
        if known is not None and known.state is SplitState.DONE:
            raise WrongState("split", add.split, known.state, "it cannot run again; leave --split out to add a new one")

    def _accept(self, add: AddSplit, known: SplitRow | None, now: str) -> None:
        self.added += 1
        row = known or SplitRow(self.added, add.request, now)
        row.position, row.request, row.waiting, row.tag = self.added, add.request, add, add.tag
        row.state, row.reason, row.started = SplitState.RUNNING, "", False
        if row.open:
            row.superseded, row.stop = True, "it was added again"
        self.splits[add.split] = row
        self.refused.pop(add.split, None)

    def _refuse(self, add: AddSplit, error: DatamonError) -> None:
        _remember(self.refused, add.split, Refusal.of(add.request, error))

    def report(self, report: SplitReport) -> None:
        """Take note of how a split ended. What an older generation tells counts for nothing."""
        row = self.splits.get(report.split)
        if row is None or not row.open or row.generation != report.generation:
            return
        row.open, row.stop = False, ""
        if not row.superseded:
            row.state, row.reason = report.state, report.reason
            row.files, row.bytes = report.files, report.bytes

    # Committing and canceling

    def check_open(self, refused: str) -> None:
        """WrongState, unless things can still change."""
        state = DiamondState.CANCELING if self.cancel is not None and not self.state.ended else self.state
        if state is not DiamondState.INITIALIZED:
            raise WrongState("diamond", self.diamond, state, refused)

    def check_commit(self, request: CommitRequest) -> None:
        """The refusal of a commit, if it is to be refused at once."""
        if self.commit is not None and not self.state.ended and not self._gives_way(request):
            raise WrongState("diamond", self.diamond, DiamondState.COMMITTING, "another commit was first")
        self.check_open("it cannot be committed any more")
        if not request.wait:
            self.check_enough(request)

    def _gives_way(self, request: CommitRequest) -> bool:
        """A commit that still waits for splits gives way to one that does not: else a wrong number would block all."""
        waits = self.commit is not None and self.commit.wait and not self.may_commit()
        return waits and self.state is DiamondState.INITIALIZED and not request.wait

    def accept_commit(self, request: CommitRequest) -> None:
        """The commit to carry out next."""
        if self.commit is not None:
            gone = WrongState("diamond", self.diamond, DiamondState.COMMITTING, "a commit that did not wait was faster")
            self.fail_commit(self.commit, gone)
        self.commit = request

    def check_enough(self, request: CommitRequest) -> None:
        """NothingToCommit, if fewer splits are done than it takes."""
        needed = request.splits or 1
        done, running, failed = (self.count(s) for s in (SplitState.DONE, SplitState.RUNNING, SplitState.FAILED))
        if done < needed:
            raise NothingToCommit(self.diamond, done, running, failed, needed)

    def may_commit(self) -> bool:
        """Whether there is a commit that need not wait: enough splits were added, and none is running."""
        if self.commit is None:
            return False
        enough = len(self.splits) >= (self.commit.splits or 1)
        return not self.commit.wait or (enough and self.count(SplitState.RUNNING) == 0)

    def knows_commit(self, request: CommitRequest) -> bool:
        """Whether this very request was accepted before, perhaps in an earlier run of the workflow."""
        waiting = self.commit is not None and self.commit.request == request.request
        return waiting or self.has_answer(request)

    def has_answer(self, request: CommitRequest) -> bool:
        """Whether this very request has come to something."""
        answered = self.answer is not None and self.answer.request == request.request
        return answered or request.request in self.failed_commits

    def fail_commit(self, request: CommitRequest, error: DatamonError) -> None:
        """The commit came to nothing. The next one may be better."""
        _remember(self.failed_commits, request.request, Refusal.of(request.request, error))
        self.reason, self.commit = str(error), None

    # Telling

    def count(self, state: SplitState) -> int:
        """How many splits are in a state."""
        return sum(row.state is state for row in self.splits.values())

    def in_line(self) -> list[tuple[SplitId, SplitRow]]:
        """The splits in the order they were added."""
        return sorted(self.splits.items(), key=lambda item: item[1].position)

    def taken(self) -> list[TakenSplit]:
        """The splits that a commit takes: those that are done."""
        rows = self.in_line()
        return [TakenSplit(split, row.generation, row.position) for split, row in rows if row.state is SplitState.DONE]

    def left_out(self) -> list[LeftOut]:
        """The splits that a commit does not take, and why."""
        rows = self.in_line()
        return [LeftOut(split, row.state, row.reason) for split, row in rows if row.state is not SplitState.DONE]

    def status(self) -> DiamondStatus:
        """The diamond in numbers."""
        done = [row for row in self.splits.values() if row.state is SplitState.DONE]
        return DiamondStatus(
            repo=self.repo,
            diamond=self.diamond,
            state=self.state,
            created=self.created,
            splits={state: self.count(state) for state in SplitState},
            waiting=sum(row.waiting is not None for row in self.splits.values()),
            files=sum(row.files for row in done),
            bytes=sum(row.bytes for row in done),
            committing=self.commit is not None,
            reason=self.reason,
            bundle=self.bundle,
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
        )

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
            bundle=self.bundle,
            splits={state: self.count(state) for state in SplitState},
            reason=self.reason,
        )


def _remember(table: dict[str, Refusal], key: str, refusal: Refusal) -> None:
    """Keep the newest few."""
    table.pop(key, None)
    table[key] = refusal
    if len(table) > REFUSALS:
        table.pop(next(iter(table)))
