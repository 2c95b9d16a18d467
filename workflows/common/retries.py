"""Failed attempts that are followed by others: workers report them to the workflow, which shows them.

An activity that is tried again leaves nothing in the history, so its workflow would not notice. The worker sends a
signal instead: for the first few attempts, and then for each whose number is a power of two. So a store that is down
for a week costs a workflow a dozen signals for each activity, not ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from datamon.core.errors import BadUsage
    from datamon.workflows.common.details import verbatim
    from datamon.workflows.common.message_checks import checked_message

FIRST = 3  # attempts that are reported without exception
SHOWN = 20  # activities of one workflow that are remembered


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt to run an activity that failed, and will be followed by another one."""

    activity: str = ""
    attempt: int = 1
    reason: str = ""
    at: str = ""
    pause: float = 0  # seconds until the next one


def is_reported(attempt: int) -> bool:
    """Whether the failure of this attempt, counting from 1, is reported to the workflow."""
    return attempt <= FIRST or attempt & (attempt - 1) == 0


def activity_words(activity_type: str) -> str:
    """What an activity is called where people read it."""
    return activity_type.replace("_", " ")


def describe_failed(failed: Iterable[FailedAttempt]) -> list[tuple[str, str]]:
    """The attempts that failed last, as rows of Current Details."""
    return [
        (
            "being tried again",
            f"{one.activity}: attempt {one.attempt} failed at {one.at[11:19]} UTC: {verbatim(one.reason)}",
        )
        for one in failed
    ]


class ShowsRetries:
    """A workflow that shows which of its activities have to be tried again."""

    def __init__(self) -> None:
        self._failed_attempts: dict[str, FailedAttempt] = {}  # by activity, until one of that kind succeeds

    def _describe(self) -> None:
        """Show how the workflow stands."""
        raise AssertionError

    def forget_failed_attempts(self, activity: str) -> None:
        """Forget the failed attempts of an activity that has ended."""
        if self._failed_attempts.pop(activity, None) is not None:
            self._describe()

    @workflow.signal(description="An attempt to run an activity failed; another one follows. Sent by workers.")
    def attempt_failed(self, message: Any = None) -> None:
        """Remember a failed attempt, and show it."""
        try:
            failed = checked_message(FailedAttempt, message)
        except BadUsage as error:
            workflow.logger.warning("a message was refused: %s", error)
            return
        if failed.activity in self._failed_attempts or len(self._failed_attempts) < SHOWN:
            self._failed_attempts[failed.activity] = failed
        self._describe()
