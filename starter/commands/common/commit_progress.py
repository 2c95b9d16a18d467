"""What the commands that commit share: waiting with progress, a summary, and what a commit would do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from datamon.core.errors import ConflictsForbidden, DatamonError, Failed
from datamon.core.text import counted
from datamon.diamonds.model import DiamondState, SplitState
from datamon.merge.modes import ConflictMode
from datamon.starter.output import amount, print_listing, print_one, say

if TYPE_CHECKING:
    from datamon.activities.spark import Progress
    from datamon.diamonds.dry_run import Preview
    from datamon.starter.client import Diamond
    from datamon.starter.progress import AttemptMeter, Meter
    from datamon.workflows.diamonds.messages import CommitAnswer, DiamondStatus, FailedSplit

_ROW = tuple[str, str, str, str]


async def wait_for_commit(diamond: Diamond, commit: Coroutine[None, None, CommitAnswer]) -> CommitAnswer:
    """The answer to a commit, and until it comes how far it is."""
    from datamon.starter.progress import AttemptMeter, meter

    answer = asyncio.ensure_future(commit)
    try:
        with meter("commit") as seen:
            waiting = _Waiting(diamond, seen, AttemptMeter(seen))
            while not (await asyncio.wait([answer], timeout=seen.pace))[0]:
                with suppress(DatamonError):  # the answer tells what is wrong
                    await waiting.show()
            return await answer
    finally:
        answer.cancel()


class _Waiting:
    """Shows what a commit waits for, and how far its merge is."""

    def __init__(self, diamond: Diamond, seen: Meter, attempts: AttemptMeter) -> None:
        self._diamond, self._seen, self._attempts = diamond, seen, attempts
        self._told: set[FailedSplit] = set()

    async def show(self) -> None:
        """Look again."""
        status = await self._diamond.status()
        for attempt in await self._diamond.attempts():
            if attempt.failure is None and attempt.progress is not None:
                _show_merge(self._seen, attempt.progress)
            else:
                self._attempts.show(attempt)
        if status.committing and status.state is DiamondState.INITIALIZED:
            self._show_splits(status)

    def _show_splits(self, status: DiamondStatus) -> None:
        for failed in status.failures:
            if failed not in self._told:
                self._told.add(failed)
                self._seen.warn(f"split {failed.tag or failed.split} failed: {failed.reason}")
        running = counted(status.splits[SplitState.RUNNING], "running split")
        self._seen.note(f"waiting for splits: {status.splits[SplitState.DONE]} done, {running}")


def _show_merge(seen: Meter, progress: Progress) -> None:
    """Parts are about equal; how many files come out of one, compared with what goes in, nobody knows before."""
    if progress.all_parts:
        seen.show(progress.files, 0, progress.all_bytes * progress.parts // progress.all_parts, progress.all_bytes)
    else:
        seen.note(progress.phase)


def summarize_bundle(answer: CommitAnswer, mode: ConflictMode = ConflictMode.KEEP) -> None:
    """What a commit came to. A bundle without the label that was asked for is a failure that says so."""
    kept = "checkpoint" if mode is ConflictMode.CHECKPOINTS else "conflict"
    among = f"{counted(answer.conflicts, kept)} among them" if answer.conflicts else f"no {kept}s"
    say(f"bundle {answer.bundle}: {counted(answer.files, 'file')}, {amount(answer.bytes)}, {among}")
    for left in answer.left_out:
        say(f"left out split {left.id}: {left.reason}")
    if answer.unlabeled:
        raise Failed(answer.unlabeled)
    if answer.label:
        say(f"label {answer.label} points to it")


def show_preview(seen: Preview, format: str) -> None:
    """A commit that was not made, as a table or whole. What would be refused is, with the same exit code."""
    if format == "table":
        print_listing(_rows(seen), format, ("OUTCOME", "SPLIT", "NAME", "NOTE"), lambda row: row)
    else:
        print_one(seen, format)
    if seen.mode is ConflictMode.FORBID and seen.conflicts:
        raise ConflictsForbidden(seen.diamond, seen.conflicts, _sample(seen))
    outcome = f"{counted(seen.files, 'file')}, {amount(seen.bytes)}, {counted(seen.conflicts, 'conflict')}"
    say(f"a commit now would make a bundle of {counted(len(seen.splits), 'split')}: {outcome}; nothing was changed")


def _rows(seen: Preview) -> Iterator[_ROW]:
    for share in seen.splits:
        lost = f", {share.conflicts:,} of them would lose" if share.conflicts else ""
        yield "taken", share.id, "", counted(share.files, "file") + lost
    for contest in seen.contested:
        yield "wins", contest.winner, contest.name, "a file or folder in its place" if contest.overruled else ""
        for loser in contest.losers:
            yield _fate(seen.mode), loser.split, contest.name, f"kept as {loser.kept_as}" if loser.kept_as else ""
    for left in seen.left_out:
        yield "left out", left.id, "", left.reason


def _fate(mode: ConflictMode) -> str:
    return {ConflictMode.CHECKPOINTS: "checkpoint", ConflictMode.IGNORE: "dropped"}.get(mode, "conflict")


def _sample(seen: Preview) -> list[str]:
    from datamon.merge.kernel import SAMPLE, describe_contest

    first = seen.contested[:SAMPLE]
    return [
        describe_contest(one.name, (loser.split for loser in one.losers), one.winner, overruled=one.overruled)
        for one in first
    ]
