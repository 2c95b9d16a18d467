"""Errors on their way through Temporal: a DatamonError goes in, and the same DatamonError comes out.

In between it is an ApplicationError whose type is the error's code and whose details are its fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError

from datamon.core.errors import DatamonError, ErrorCode, Failed, StoreRefused, rebuild

_CODES = frozenset(ErrorCode)


def to_failure(error: DatamonError, *, retryable: bool | None = None) -> ApplicationError:
    """The error as Temporal carries it. An error that does not pass by itself is not retried."""
    return ApplicationError(
        str(error),
        *error.args,
        type=error.code,
        non_retryable=not (error.retryable if retryable is None else retryable),
        category=ApplicationErrorCategory.BENIGN,  # an answer to the user, not a fault of this worker
    )


def from_failure(error: BaseException) -> DatamonError:
    """The DatamonError at the bottom of a failure, or one that says in a sentence what is there instead."""
    cause: BaseException | None = error
    last = error
    while cause is not None:
        if isinstance(cause, ApplicationError) and cause.type in _CODES:
            return rebuild(cause.type, cause.details, cause.message)
        last, cause = last if _is_empty(cause) else cause, cause.__cause__
    text = last.message if isinstance(last, FailureError) else str(last)
    return Failed(text.strip() or type(last).__name__)


def _is_empty(error: BaseException) -> bool:
    """Whether it says nothing. The server keeps large failures without their causes' words."""
    return isinstance(error, FailureError) and error.failure is not None and not error.failure.message


# What Python raises if code or data is wrong. The next attempt would fail in the same way, so there must be none.
_FLAWS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)


@contextmanager
def errors_as_failures(*, patient: bool = False) -> Iterator[None]:
    """Turn errors that leave an activity or a handler into failures that Temporal carries.

    A patient activity is retried if the store refuses: somebody will renew the credentials, and what a workflow has
    decided must not be lost until then.
    """
    try:
        yield
    except DatamonError as error:
        raise to_failure(error, retryable=error.retryable or (patient and isinstance(error, StoreRefused))) from error
    except _FLAWS as error:
        raise to_failure(Failed(f"this is a bug: {error!r}"[:500])) from error
