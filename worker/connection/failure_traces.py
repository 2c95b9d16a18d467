"""Failures that fit into what the server keeps of them.

Of an activity that is tried again, the server keeps the last failure, up to 4 KiB, for `describe` and the Web UI. A
longer failure loses the fields of its error, and with them the reason that people are to read. Stack traces are nearly
all of that length, so only the frames next to an error travel with it.
"""

from __future__ import annotations

from types import TracebackType

from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadConverter,
)

FRAMES = 3  # of each error; an error with two causes then has about 2 KiB
CAUSES = 2


class ShortTraces(DefaultFailureConverter):
    """Converts errors as Temporal does, with few frames and causes of each."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See FailureConverter. The one above calls this for each cause, too."""
        exception.__traceback__ = _innermost(exception.__traceback__)
        super().to_failure(exception, payload_converter, failure)
        last = failure
        for _ in range(CAUSES):
            last = last.cause
        last.ClearField("cause")


class EncodedShortTraces(ShortTraces, DefaultFailureConverterWithEncodedAttributes):
    """The same, with messages and traces where a codec encrypts them."""


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    """The end of a trace, where the error was raised."""
    ahead = trace
    for _ in range(FRAMES):
        ahead = ahead and ahead.tb_next
    while ahead is not None and trace is not None:
        trace, ahead = trace.tb_next, ahead.tb_next
    return trace
