"""What a diamond remembers of its splits, and what it often asks about all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from datamon.activities.contracts.recovery import RecoveredSplit
from datamon.core.ids import SplitId
from datamon.diamonds.model import SplitState
from datamon.workflows.diamonds.messages import AddSplit


@dataclass
class SplitRow:
    """What a diamond remembers of a split."""

    position: int
    request: str
    created: str
    state: SplitState = SplitState.RUNNING
    added: str = ""  # when it was added last
    since: str = ""  # when its newest run was started
    took: float = 0  # seconds from there to its end
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

    @classmethod
    def restored(cls, split: RecoveredSplit, number: int) -> SplitRow:
        """The row of a split that the store knows; `number` is its position if the store does not say."""
        return cls(
            position=split.position or number,
            request=split.request,
            created=split.created,
            state=split.state,
            generation=split.generation,
            started=True,
            files=split.files,
            bytes=split.bytes,
            reason=split.reason,
            tag=split.tag,
        )


def weight_of(add: AddSplit) -> int:
    """The bytes of an add whose length its sender has chosen."""
    source = add.source
    texts = (source.path, source.files, source.name_filter, *source.include, *source.exclude)
    return sum(map(_bytes, (*texts, add.queue, add.host, add.tag, add.contributor.name, add.contributor.email)))


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))  # what is not UTF-8 is refused elsewhere; nothing may fail here


class SplitIndex:
    """What is often asked about all rows, kept up to date so that a diamond of 2,000 splits is not slower."""

    def __init__(self) -> None:
        self.states: Counter[SplitState] = Counter()
        self.files = self.bytes = self.waiting = 0  # files and bytes of those that are done
        self.weight = 0  # of the text in all rows
        self.ready: dict[SplitId, SplitRow] = {}  # to be started as soon as there is room
        self.open: dict[SplitId, SplitRow] = {}
        self.failed: dict[SplitId, SplitRow] = {}  # in the order they failed

    def enter(self, split: SplitId, row: SplitRow) -> None:
        """Count a row."""
        self._count(row, 1)
        if row.waiting is not None and not row.open:
            self.ready[split] = row
        if row.open:
            self.open[split] = row
        if row.state is SplitState.FAILED:
            self.failed[split] = row

    def leave(self, split: SplitId, row: SplitRow) -> None:
        """Stop counting a row, which is about to change."""
        self._count(row, -1)
        for rows in (self.ready, self.open, self.failed):
            rows.pop(split, None)

    def _count(self, row: SplitRow, sign: int) -> None:
        self.states[row.state] += sign
        self.waiting += sign * (row.waiting is not None)
        text = weight_of(row.waiting) if row.waiting is not None else _bytes(row.tag)
        self.weight += sign * (text + _bytes(row.reason))
        if row.state is SplitState.DONE:
            self.files += sign * row.files
            self.bytes += sign * row.bytes
