import pytest
from temporalio.client import WorkflowQueryFailedError

from datamon.core.errors import Failed
from datamon.worker.connection.failures import READINGS, retry_while_busy
from datamon.workflows.common.names import STALE_STATE

MISFIT = "[TMPRL1100] Nondeterminism error: a machine does not handle this event"


def asked(*problems):
    """A question that meets these problems, one after the other, and then is answered."""
    coming = iter(problems)

    async def ask():
        for problem in coming:
            raise WorkflowQueryFailedError(problem)
        return "answer"

    return ask


@pytest.mark.parametrize(
    "problems", [[], [STALE_STATE], [STALE_STATE] * 4, [MISFIT], [MISFIT, STALE_STATE, MISFIT]], ids=len
)
async def test_a_query_that_found_a_worker_led_astray_is_asked_again(problems):
    assert await retry_while_busy(asked(*problems)) == "answer"


async def test_a_workflow_that_really_does_not_fit_its_history_is_not_asked_for_ever():
    with pytest.raises(Failed, match="could not answer"):
        await retry_while_busy(asked(*[MISFIT] * READINGS))


async def test_a_query_that_fails_for_another_reason_is_not_asked_again():
    with pytest.raises(Failed, match="no such split"):
        await retry_while_busy(asked("no such split"))
