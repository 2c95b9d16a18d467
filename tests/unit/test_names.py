import pytest

from datamon.names import EVERYTHING, ancestors, below, flaw, is_below, just, order, prefixed


@pytest.mark.parametrize("name", ["a", "a/b", "ä/ö", ".hidden", "a..b", " ", "a/.conflicts", "x" * 1024, "\n"])
def test_legal_names(name):
    assert flaw(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "relative"),
        ("/a", "relative"),
        ("a/", "relative"),
        ("a//b", "relative"),
        ("../a", "relative"),
        ("a/./b", "relative"),
        ("a\0b", "NUL"),
        ("ö" * 513, "longer"),
        ("\udcff", "UTF-8"),
    ],
)
def test_illegal_names(name, why):
    assert why in flaw(name)


def test_a_file_stands_right_before_what_lies_below_it():
    assert sorted(["x-1", "x/b/c", "y", "x", "x/a", "x.txt"], key=order) == ["x", "x/a", "x/b/c", "x-1", "x.txt", "y"]


def test_ranges():
    names = ["x", "x/a", "x/b/c", "x-1", "y"]

    def inside(names_range):
        return [name for name in names if names_range.holds(order(name))]

    assert inside(EVERYTHING) == names
    assert inside(just("x")) == ["x"]
    assert inside(below("x")) == ["x/a", "x/b/c"]
    assert inside(prefixed("x")) == ["x", "x/a", "x/b/c", "x-1"]
    assert inside(prefixed("x/b")) == ["x/b/c"]
    assert inside(prefixed("")) == names
    assert prefixed("a\U0010ffff").stop == "b"


def test_ancestors_from_the_top():
    assert list(ancestors(order("a/b/c"))) == [order("a"), order("a/b")]
    assert is_below(order("a/b"), order("a"))
    assert not is_below(order("a-b"), order("a"))
    assert not is_below(order("a"), order("a"))
