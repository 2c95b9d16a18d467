import pytest

from datamon.core.names import (
    EVERYTHING,
    ancestors,
    inside_folder,
    is_below,
    name_problem,
    only_name,
    sort_key,
    with_prefix,
)


@pytest.mark.parametrize("name", ["a", "a/b", "ä/ö", ".hidden", "a..b", " ", "a/.conflicts", "x" * 1024, "\n"])
def test_legal_names(name):
    assert name_problem(name) is None


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
    assert why in name_problem(name)


def test_a_file_stands_right_before_what_lies_below_it():
    assert sorted(["x-1", "x/b/c", "y", "x", "x/a", "x.txt"], key=sort_key) == [
        "x",
        "x/a",
        "x/b/c",
        "x-1",
        "x.txt",
        "y",
    ]


def test_ranges():
    names = ["x", "x/a", "x/b/c", "x-1", "y"]

    def inside(names_range):
        return [name for name in names if names_range.holds(sort_key(name))]

    assert inside(EVERYTHING) == names
    assert inside(only_name("x")) == ["x"]
    assert inside(inside_folder("x")) == ["x/a", "x/b/c"]
    assert inside(with_prefix("x")) == ["x", "x/a", "x/b/c", "x-1"]
    assert inside(with_prefix("x/b")) == ["x/b/c"]
    assert inside(with_prefix("")) == names
    assert with_prefix("a\U0010ffff").stop == "b"


def test_ancestors_from_the_top():
    assert list(ancestors(sort_key("a/b/c"))) == [sort_key("a"), sort_key("a/b")]
    assert is_below(sort_key("a/b"), sort_key("a"))
    assert not is_below(sort_key("a-b"), sort_key("a"))
    assert not is_below(sort_key("a"), sort_key("a"))
