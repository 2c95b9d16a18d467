import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from datamon.activities.failures import errors_as_failures, from_failure
from datamon.core.errors import StoreUnreachable
from datamon.worker.connection.encryption import converter

KEPT = 4_000  # bytes of a failure that the server keeps whole

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def fail(depth):
    """Meet an error far down, with a chain of causes."""
    if depth:
        try:
            return fail(depth - 1)
        except OSError as error:
            raise OSError("x" * 100) from error
    raise OSError("at the bottom")


def meet_an_error(depth):
    try:
        fail(depth)
    except OSError as error:
        raise StoreUnreachable("s3://bucket", "no answer") from error


@pytest.mark.parametrize("keys", ["", KEY], ids=["clear", "encrypted"])
async def test_an_error_from_far_down_fits_into_what_the_server_keeps(keys):
    data = converter(keys, for_worker=False)
    failure = Failure()
    with pytest.raises(ApplicationError) as met, errors_as_failures():
        meet_an_error(40)
    await data.encode_failure(met.value, failure)
    assert failure.ByteSize() < KEPT
    again = from_failure(await data.decode_failure(failure))
    assert (again.store, again.reason) == ("s3://bucket", "no answer")


async def test_the_frames_that_travel_are_those_next_to_the_error():
    failure = Failure()
    try:
        fail(10)
    except OSError as error:
        await converter("", for_worker=False).encode_failure(error, failure)
    assert "in fail" in failure.stack_trace
    assert "test_failure_traces" in failure.stack_trace
    assert failure.cause.cause.message == "x" * 100
    assert not failure.cause.cause.HasField("cause")


async def test_a_failure_that_the_server_cut_keeps_its_words():
    """It then has a type and a message, and no fields."""
    failure = Failure(message="no answer from the store")
    failure.application_failure_info.type = "StoreUnreachable"
    assert str(from_failure(await converter("", for_worker=False).decode_failure(failure))) == failure.message


async def test_causes_that_the_server_has_emptied_do_not_hide_the_words_that_are_left():
    failure = Failure(message="the worker is shutting down", cause=Failure(cause=Failure()))
    failure.application_failure_info.type = "WorkerShutdown"
    decoded = await converter("", for_worker=False).decode_failure(failure)
    assert str(from_failure(decoded)) == "the worker is shutting down"
