"""Refusals that are remembered: whoever sends a signal gets no answer, and asks for it later.

Annotations are evaluated here, not kept as text: a workflow in a sandbox evaluates the text with the modules that it
imports by name, and most workflows meet a Refusal only as a field of something else.
"""

from dataclasses import dataclass
from typing import Any, Self

from datamon.core.errors import DatamonError, ErrorCode, rebuild

REMEMBERED = 100  # refusals of one kind
REMEMBERED_BYTES = 200_000  # that they may take together


@dataclass(frozen=True)
class Refusal:
    """Why something was refused, as plain values that turn back into the error."""

    request: str
    code: str
    args: list[Any]

    @classmethod
    def of(cls, request: str, error: DatamonError) -> Self:
        """The refusal that carries this error."""
        return cls(request, error.code, list(error.args))

    def error(self) -> DatamonError:
        """The error again."""
        return rebuild(ErrorCode(self.code), self.args)


def remember(refusals: dict[str, Refusal], key: str, refusal: Refusal) -> None:
    """Keep the newest few."""
    refusals.pop(key, None)
    refusals[key] = refusal
    while len(refusals) > REMEMBERED or (len(refusals) > 1 and sum(map(_size, refusals.values())) > REMEMBERED_BYTES):
        refusals.pop(next(iter(refusals)))


def _size(refusal: Refusal) -> int:
    return len(ascii(refusal.args))
