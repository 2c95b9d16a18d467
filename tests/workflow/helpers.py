"""What the tests of workflows share."""

from __future__ import annotations

import asyncio

from temporalio.client import WorkflowExecutionStatus

from datamon.bundles.catalog import list_bundles
from datamon.core.contributors import Contributor
from datamon.core.ids import new_id
from datamon.diamonds.catalog import get_diamond, list_splits
from datamon.sources.source import Source
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import AddSplit

NOBODY = "datamon@nobody"  # a queue that no worker polls: what is added there runs until it has to stop


async def add_unending(diamond, split=None):
    """A split that stays running."""
    add = AddSplit(split or new_id(), new_id(), Source("/nowhere"), NOBODY, "nobody", Contributor("Ada"))
    await diamond.handle.signal(DiamondWorkflow.add, [add])
    return add.split


async def add_started(diamond, split=None):
    """A split that stays running, and is published to do so."""
    added = await add_unending(diamond, split)

    async def is_published():
        return await is_started(diamond, added) and added in splits(diamond._datamon, diamond)

    await until(is_published)
    return added


def bundles(datamon, diamond):
    return list(list_bundles(datamon.context, diamond.repo))


def splits(datamon, diamond):
    return {split.id: split for split in list_splits(datamon.context, diamond.repo, diamond.id)}


def published(datamon, diamond):
    return get_diamond(datamon.context, diamond.repo, diamond.id)


async def until(condition):
    """Ask again and again until it is so; the test's time limit ends a vain wait."""
    while not (found := await condition()):  # noqa: ASYNC110 - what it waits for is in another process
        await asyncio.sleep(0.05)
    return found


async def is_committing(diamond):
    return (await diamond.status()).committing


async def is_started(diamond, split):
    return (await diamond.handle.query(DiamondWorkflow.split, split)).started


async def is_running(handle):
    try:
        return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    except Exception:  # noqa: BLE001 - not started yet
        return False
