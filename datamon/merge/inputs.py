"""What is merged.

    base    the bundle it starts from: the weakest input, superseded silently
    peer    a split of a diamond, or one side of a branch merge: peers may conflict with each other
    layer   a staged segment: it silently replaces earlier layers, and every peer

Any input may hold deletions, of a name or of everything below a folder. They remove what is weaker than the input they
stand in, never an entry of that input itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from datamon.core.ids import SplitId
from datamon.lists.cutting import USUAL as USUAL_CUTTING
from datamon.lists.cutting import Cutting
from datamon.lists.reader import FileList
from datamon.lists.reference import ListRef
from datamon.merge.modes import ConflictMode, Order
from datamon.stores import keys
from datamon.stores.context import Context


class Role(IntEnum):
    """How strong an input is, whatever it holds."""

    BASE = 0
    PEER = 1
    LAYER = 2


InputId = SplitId
"""What an input is called: its versions that lose are filed under it."""


@dataclass(frozen=True, slots=True)
class MergeInput:
    """One of the things that are merged, with its lists.

    The lists of a bundle lie under their digests. Those of a split or segment lie in a `folder` of vmetadata.
    """

    id: InputId
    role: Role
    lists: Sequence[ListRef]
    folder: str = ""
    position: int = 0  # of a layer, among the layers; of a peer, among the adds of its diamond

    def open(self, reference: ListRef, context: Context) -> FileList:
        """One of its lists."""
        if not self.folder:
            return FileList.stored(context.metadata, keys.file_list(reference.digest), reference)
        return FileList.stored(context.vmetadata, keys.uploaded_list(self.folder, reference.index), reference)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How finely work is cut."""

    range_entries: int = 80_000  # what one task merges in an eighth of a second
    few_entries: int = 4_000  # a small merge is spread over a few cores, but not more finely than this
    strip_entries: int = 5_000  # settled at a time: what is made of them stays in the processor's caches
    strip_piece: int = 32  # of each list at least so many, or finding them takes longer than the strip saves
    cutting: Cutting = USUAL_CUTTING

    def strips(self, entries: int, lists: int) -> int:
        """The number of strips in which so many entries of so many lists are settled."""
        return max(1, entries // max(self.strip_entries, self.strip_piece * lists))


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Everything that all tasks of a merge need to know."""

    inputs: Sequence[MergeInput]
    mode: ConflictMode = ConflictMode.KEEP
    order: Order = Order.UPLOADED
    sizes: Sizes = field(default_factory=Sizes)

    @property
    def base(self) -> Sequence[ListRef]:
        """The lists of the base, if there is one."""
        return next((one.lists for one in self.inputs if one.role is Role.BASE), ())

    def changes(self) -> list[tuple[MergeInput, ListRef]]:
        """The lists of all peers and layers, each with its input."""
        return [(one, reference) for one in self.inputs if one.role is not Role.BASE for reference in one.lists]

    def rank(self, one: MergeInput) -> int | None:
        """What all versions of an input are compared by; None if each is compared by its own timestamp."""
        return one.position if one.role is Role.LAYER or self.order is Order.ADDED else None
