"""The splits of a diamond as inputs of a merge."""

from __future__ import annotations

from collections.abc import Iterable

from datamon.bundles.model import TakenSplit
from datamon.core.concurrency import map_concurrently
from datamon.core.errors import CorruptObject, StaleWrite
from datamon.core.ids import DiamondId, RepoName
from datamon.diamonds.model import Split, SplitState
from datamon.merge.inputs import MergeInput, MergeTask, Role
from datamon.merge.modes import ConflictMode, Order
from datamon.stores import descriptors, keys
from datamon.stores.protocol import ObjectStore


def read_splits(vmetadata: ObjectStore, repo: RepoName, diamond: DiamondId, taken: Iterable[TakenSplit]) -> list[Split]:
    """The descriptors of splits that go into a bundle, each checked to be done in the generation that was taken."""

    def read(split: TakenSplit) -> Split:
        key = keys.split(repo, diamond, split.id)
        result = descriptors.read(Split, vmetadata, key)
        if result.generation != split.generation:
            raise StaleWrite(key)
        if result.state is not SplitState.DONE:
            raise CorruptObject(key, f"`state` is {result.state}, but the diamond knows it as done")
        return result

    return list(map_concurrently(taken, read))


def merge_task(splits: Iterable[Split], taken: Iterable[TakenSplit], mode: ConflictMode, order: Order) -> MergeTask:
    """The merge of splits that are done."""
    positions = {one.id: one.position for one in taken}
    inputs = [
        MergeInput(
            id=split.id,
            role=Role.PEER,
            lists=split.lists,
            folder=keys.split_folder(split.repo, split.diamond, split.id),
            position=positions[split.id],
        )
        for split in splits
    ]
    return MergeTask(inputs, mode, order)
