"""Splits as listings show them: as stored, with the progress of those that run, and those that wait for a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from datamon.core.errors import DatamonError, ServerUnreachable
from datamon.core.instants import seconds_between
from datamon.diamonds.catalog import list_splits
from datamon.diamonds.model import Diamond as StoredDiamond
from datamon.diamonds.model import Split as StoredSplit
from datamon.diamonds.model import SplitState
from datamon.settings.settings import Settings
from datamon.starter.advice import sentence
from datamon.starter.progress import describe_retry

if TYPE_CHECKING:
    from datamon.starter.attempts import Attempt
    from datamon.starter.client import Datamon
    from datamon.workflows.diamonds.messages import SplitStatus


async def with_progress(datamon: Datamon | None, splits: Sequence[StoredSplit]) -> list[dict[str, Any]]:
    """Splits as they are stored, with how long they took; and those that run with how far they are, if one can tell."""
    running = [split for split in splits if split.state is SplitState.RUNNING and split.started is not None]
    attempts = await _attempts(datamon, running) if running and datamon is not None else {}
    return [_shown(split, attempts.get(split.id)) for split in splits]


def _shown(split: StoredSplit, attempt: Attempt | None) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(split)
    took = seconds_between(split.started, split.ended) if split.started and split.ended else None
    shown |= {"seconds": took, "rate": int(split.bytes / took) if took and split.state is SplitState.DONE else None}
    progress = asdict(attempt.progress) if attempt is not None and attempt.progress is not None else None
    if progress is not None:
        shown |= {name: progress[name] for name in ("files", "bytes", "stored", "rate")}
    if attempt is not None:
        shown["attempts"] = max(attempt.number, split.attempts)
    return shown | {"progress": progress, "retry": shown_retry(attempt)}


def shown_retry(attempt: Attempt | None) -> dict[str, Any] | None:
    """Why something is tried again, in fields; None, where its first attempt is under way."""
    if attempt is None or attempt.failure is None:
        return None
    return {
        "activity": attempt.activity,
        "attempt": attempt.number,
        "code": attempt.failure.code,
        "reason": sentence(attempt.failure),
        "next": attempt.next or None,
        "note": describe_retry(attempt),
    }


async def _attempts(datamon: Datamon, splits: Sequence[StoredSplit]) -> dict[str, Attempt]:
    """What splits have under way, where the server knows of something."""
    diamonds = datamon.diamonds
    attempts = await asyncio.gather(
        *(diamonds.get(split.repo, split.diamond).split(split.id).attempt() for split in splits)
    )
    return {split.id: one for split, one in zip(splits, attempts, strict=True) if one is not None}


@asynccontextmanager
async def connect_if(needed: bool) -> AsyncIterator[Datamon | None]:  # noqa: FBT001
    """A client, if one is needed and the server answers: what the store says can be shown without one."""
    datamon: Datamon | None = None
    if needed:
        from datamon.starter.client import Datamon as Client

        with suppress(ServerUnreachable):
            datamon = await Client.connect()
    yield datamon


async def all_splits(datamon: Datamon | None, diamond: StoredDiamond) -> list[StoredSplit]:
    """The splits of a diamond in the order they were added, with those that wait for a place, if one can tell."""
    context = datamon.context if datamon is not None else Settings.load().context()
    stored = await asyncio.to_thread(lambda: list(list_splits(context, diamond.repo, diamond.id)))
    if datamon is not None and not diamond.state.ended:
        known = {split.id for split in stored}
        stored += [_waiting(diamond, split) for split in await _in_line(datamon, diamond) if split.split not in known]
    return sorted(stored, key=lambda split: (split.position, split.created, split.id))


async def _in_line(datamon: Datamon, diamond: StoredDiamond) -> list[SplitStatus]:
    """Splits that were added and wait for a place, which only the workflow knows of; none, if it cannot be asked."""
    from datamon.worker.connection.queues import require_worker
    from datamon.workflows.common.names import TASK_QUEUE

    try:
        opened = datamon.diamonds.get(diamond.repo, diamond.id)
        await require_worker(datamon.client, TASK_QUEUE, patience=0)
        if not (await opened.status()).waiting:
            return []
        return [split for split in await opened.splits() if split.waiting is not None]
    except DatamonError:
        return []


def _waiting(diamond: StoredDiamond, split: SplitStatus) -> StoredSplit:
    assert split.waiting is not None
    return StoredSplit(
        id=split.split,
        diamond=diamond.id,
        repo=diamond.repo,
        state=SplitState.RUNNING,
        generation=split.generation,
        revision=0,
        tag=split.tag,
        contributor=split.waiting.contributor,
        host=split.waiting.host,
        source=split.waiting.source.path,
        created=split.created,
        started=None,
        position=split.position,
    )


def progress_note(split: dict[str, Any]) -> str:
    """How far a running split is, in a few words."""
    progress, retry = split["progress"], split["retry"]
    if retry is not None:
        return str(retry["note"])
    if progress is None:
        return "waiting for a place" if split["state"] == SplitState.RUNNING and split["started"] is None else ""
    if not progress["all_parts"]:
        return str(progress["phase"])
    share = 100 * progress["bytes"] // max(progress["all_bytes"], 1)
    parts = f"{progress['parts']}/{progress['all_parts']} parts"
    return f"{progress['phase']} {min(share, 100)} %, {parts}"
