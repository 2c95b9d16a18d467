import time

import pytest
from ksuid import Ksuid

from datamon.core.errors import BadUsage
from datamon.core.ids import RANDOM_BYTES, bundle_id, diamond_id, id_at, label_name, new_id, repo_name, split_id


@pytest.mark.parametrize("text", ["weather", "a", "0", "A.b_c-1", "x" * 100, "3MC93tEZtiJC40ZlRwzcqJx10MG"])
@pytest.mark.parametrize("check", [repo_name, diamond_id, split_id, bundle_id, label_name])
def test_legal_ids_pass_as_they_are(check, text):
    assert check(text) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "-a", "_a", ".a", "a/b", "../x", "a b", "a\n", "é", "x" * 101, "a\0", "s3://x", "a\\b", "\uff11"],
)
@pytest.mark.parametrize("check", [repo_name, diamond_id, split_id, bundle_id, label_name])
def test_ids_that_could_leave_their_place_are_refused(check, text):
    with pytest.raises(BadUsage, match="is not a legal"):
        check(text)


def test_a_ksuid_of_a_workflow_is_the_same_when_replayed_and_sorts_by_time():
    least, greatest = bytes(RANDOM_BYTES), b"\xff" * RANDOM_BYTES
    assert id_at(1_763_250_000, least) == id_at(1_763_250_000, least)
    for start in (1_763_250_000, 1_763_250_000.5, 1_763_250_000.996):
        assert id_at(start, greatest) < id_at(start + 0.004, least)


def test_a_ksuid_says_when_it_was_made_to_whoever_reads_ksuids():
    assert Ksuid.from_base62(id_at(1_763_250_000.25, bytes(RANDOM_BYTES))).timestamp == 1_763_250_000
    assert abs(Ksuid.from_base62(new_id()).timestamp - time.time()) < 60


def test_ids_that_a_client_makes_one_after_the_other_sort_in_that_order():
    made = [new_id()]
    while len(made) < 10:
        time.sleep(0.009)
        made.append(new_id())
    assert made == sorted(made)
    assert {len(one) for one in made} == {27}
