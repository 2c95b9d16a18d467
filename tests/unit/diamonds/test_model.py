from itertools import product

import pytest

from datamon.core.errors import WrongState
from datamon.core.instants import instant
from datamon.diamonds.model import DiamondState, SplitState

D, S = DiamondState, SplitState
LEGAL = {
    (D.INITIALIZED, D.COMMITTING),
    (D.INITIALIZED, D.CANCELING),
    (D.COMMITTING, D.DONE),
    (D.COMMITTING, D.INITIALIZED),
    (D.CANCELING, D.CANCELED),
    (S.RUNNING, S.DONE),
    (S.RUNNING, S.FAILED),
    (S.RUNNING, S.RUNNING),
    (S.FAILED, S.RUNNING),
}


@pytest.mark.parametrize(("state", "to"), [*product(D, D), *product(S, S)])
def test_only_the_designed_transitions_are_possible(state, to):
    if (state, to) in LEGAL:
        assert state.advance(to) is to
    else:
        with pytest.raises(WrongState, match=f"is {state}: it cannot become {to}"):
            state.advance(to, "d1")


def test_the_ends():
    assert {state for state in [*D, *S] if state.ended} == {D.DONE, D.CANCELED, S.DONE}


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_763_250_000_123_456_789, "2025-11-15T23:40:00.123456789Z"),
    ],
)
def test_times_are_rfc_3339_and_keep_their_nanoseconds(ns, text):
    assert instant(ns) == text
