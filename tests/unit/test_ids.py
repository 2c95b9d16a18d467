import pytest

from datamon.errors import BadUsage
from datamon.ids import bundle_id, diamond_id, id_at, label_name, new_id, repo_name, split_id


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
    assert id_at(1_763_250_000, bytes(16)) == id_at(1_763_250_000, bytes(16))
    assert id_at(1_763_250_000, b"\xff" * 16) < id_at(1_763_250_001, bytes(16))
    assert len(new_id()) == 27
