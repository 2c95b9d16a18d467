"""What an upload leaves out because it cannot be uploaded: its names, and why.

The walk that plans an upload and each of its tasks write what they left out as an object of its own, next to the file
lists of the split: so there may be many, and nobody holds them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from datamon.core.errors import AlreadyExists, CorruptObject, DatamonError, SourceMissing, SourceUnreadable, UnfitFile
from datamon.core.text import shortened
from datamon.sources.source import Source
from datamon.stores import keys
from datamon.stores.protocol import ObjectStore

MOST = 100_000  # that one walk or task names; it counts the rest
SAMPLE = 10  # that the descriptor of a split names
_SAMPLE_BYTES = 300  # of a name or reason there


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a source that was left out."""

    name: str
    reason: str

    def short(self) -> Skipped:
        """The same, if need be with less of it, for a place with little room."""
        return Skipped(shortened(self.name, _SAMPLE_BYTES), shortened(self.reason, _SAMPLE_BYTES))


class SkipProblems:
    """The OnProblem that a source asks for: with skip_on_error, take note and go on."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.count = 0
        self.skipped: list[Skipped] = []  # the first of them

    def __call__(self, error: DatamonError) -> None:
        """Decide about one thing that cannot be uploaded."""
        if not self._source.skip_on_error:
            raise error
        self.count += 1
        if len(self.skipped) < MOST:
            self.skipped.append(_left_out(error, self._source))

    def write(self, store: ObjectStore, folder: str, index: str) -> None:
        """Store what was left out, if anything was. Where another attempt did that before, its word counts."""
        if self.skipped:
            with suppress(AlreadyExists):
                store.create(keys.skipped(folder, index), _encoder.encode_lines(self.skipped))


_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Skipped).decode_lines


def read_skipped(store: ObjectStore, folder: str, run: str) -> Iterator[Skipped]:
    """What a run of a split left out; `run` is what the indexes of its lists begin with."""
    for key in sorted(store.keys(keys.skipped_of(folder, run))):
        try:
            yield from _decode(store.get(key))
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptObject(key, str(error)) from error


def sample_of(skipped: Iterable[Skipped]) -> list[Skipped]:
    """The first few, short enough for a descriptor."""
    return [one.short() for _, one in zip(range(SAMPLE), skipped, strict=False)]


def _left_out(error: DatamonError, source: Source) -> Skipped:
    match error:
        case UnfitFile():
            name, reason = error.name, error.reason
        case SourceUnreadable():
            name, reason = _below(source, error.path), error.reason
        case SourceMissing():
            name, reason = _below(source, error.path), "it does not exist"
        case _:
            name, reason = source.path, str(error)
    return Skipped(_as_text(name), _as_text(reason))


def _as_text(name: str) -> str:
    """A name that may be no text at all, as text."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _below(source: Source, path: str) -> str:
    """A path as a name in the source."""
    return path.removeprefix(source.path.rstrip("/") + "/") or path
