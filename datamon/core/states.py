"""States that know which states may follow them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from datamon.core.errors import WrongState


class State(StrEnum):
    """Where something stands. A subclass says in `_arrows` which states may follow which."""

    @classmethod
    def _arrows(cls) -> Mapping[Self, frozenset[Self]]:
        """The successors of every state."""
        return {}

    def advance(self, to: Self, name: str = "") -> Self:
        """The next state, or WrongState where there is no such arrow."""
        if to not in self._arrows()[self]:
            kind = type(self).__name__.removesuffix("State").lower()
            raise WrongState(kind, name, self, f"it cannot become {to}")
        return to

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return not self._arrows()[self]
