"""Rules that a run of `make torture` has shown to be told wrongly somewhere: the checker's against ours."""

from tests.faults.checker import _settled


def version(name, split, rank, content):
    return name, (rank, split), {"hash": content}


def test_of_equal_files_that_lose_against_a_folder_one_is_kept():
    """Found by `python -m tests.faults cluster --seed 106`."""
    versions = [version("x", "one", 1, "same"), version("x", "two", 2, "same"), version("x/y", "three", 3, "other")]
    assert _settled(versions) == ({"x/y": {"hash": "other"}}, [("x", "two", {"hash": "same"})])


def test_what_lies_deeper_is_not_overruled_by_a_file_that_lost():
    versions = [version("a", "one", 5, "1"), version("a/b", "two", 3, "2"), version("a/b/c", "three", 4, "3")]
    winners, losers = _settled([*versions, version("a/z", "four", 9, "4")])
    assert winners == {"a/b/c": {"hash": "3"}, "a/z": {"hash": "4"}}
    assert losers == [("a", "one", {"hash": "1"}), ("a/b", "two", {"hash": "2"})]
