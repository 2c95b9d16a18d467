"""Cutting names into ranges, by what lists and their heads say."""

from itertools import pairwise

import pytest

from datamon.filelist import Block
from datamon.model import ListInfo
from datamon.names import order
from datamon.ranges import USUAL, Cutting, ranges_of


def listing(split, first, last, count=100):
    return split, ListInfo(f"{split}-{first}", count, 0, first, last, "")


def no_blocks(one):
    raise AssertionError(f"{one} is opened")


def kinds(lists, cutting=USUAL, blocks_of=no_blocks):
    return [(part.whole, part.names.start, part.names.stop) for part in ranges_of(lists, blocks_of, cutting)]


def blocks_of(count):
    """A list whose names are 000000, 000001, ... in blocks of 250."""

    def blocks(_):
        return [Block(f"{number:06d}", min(250, count - number), 0, 0, "") for number in range(0, count, 250)]

    return blocks


@pytest.mark.parametrize("splits", [1, 10, 200])
@pytest.mark.parametrize("shift", [0, 1])
def test_ranges_are_about_equal_though_all_lists_start_alike(splits, shift):
    count, target = 200_000 // splits, 5_000
    lists = [listing(f"s{n:03d}", f"{n * shift:06d}", f"{count - 1:06d}", count) for n in range(splits)]
    parts = ranges_of(lists, blocks_of(count), Cutting(target, whole_to=0))
    assert [a.names.stop for a in parts[:-1]] == [b.names.start for b in parts[1:]]
    assert [part.number for part in parts] == list(range(len(parts)))
    bounds = [int(part.names.start) for part in parts] + [count]
    held = [splits * (b - a) for a, b in pairwise(bounds)]
    assert max(held) <= target + 2 * 250 * splits
    assert len(parts) >= (20 if splits < 200 else 2)


def test_lists_that_nobody_comes_near_are_taken_whole_and_stay_closed():
    lists = [listing(f"s{n}", f"{n:03d}/a", f"{n:03d}/z", 2000) for n in range(20)]
    assert kinds(lists) == [
        (True, "000\0a", "007\0z\1"),
        (True, "008\0a", "015\0z\1"),
        (True, "016\0a", "019\0z\1"),
    ]


def test_only_what_touches_is_merged():
    spans = {"c": ("f", "h"), "d": ("g", "i"), "a": ("a", "b"), "b": ("x", "z")}
    lists = [listing(split, *span, 2000) for split, span in spans.items()]
    expected = [(True, "a", "b\1"), (False, "f", "i\1"), (True, "x", "z\1")]
    assert kinds(lists, Cutting(10_000, 10_000)) == expected


@pytest.mark.parametrize(
    ("first", "second", "touch"),
    [
        (("a", "c"), ("c", "d"), True),  # one name in both
        (("a", "c"), ("c/x", "d"), True),  # a file, and something below it
        (("a", "c"), ("c-1", "d"), False),
        (("a", "c/x"), ("c/y", "d"), False),
        (("a", "z"), ("c", "d"), True),  # one within the other
    ],
)
def test_what_touches(first, second, touch):
    found = kinds([listing("a", *first, 2000), listing("b", *second, 2000)], Cutting(10_000, 10_000))
    assert [whole for whole, *_ in found] == ([False] if touch else [True])
    assert found[-1][2] == order(max(first[1], second[1], key=order)) + "\1"


def test_small_lists_are_joined_with_their_neighbours():
    lists = [listing(f"s{n:04d}", f"{n:04d}/a", f"{n:04d}/z", 10) for n in range(2000)]
    found = kinds(lists)
    assert [whole for whole, *_ in found] == [False] * 4


def test_no_lists_are_no_work():
    assert kinds([]) == []


def test_lists_that_are_taken_whole_do_not_cut_the_others_into_too_many_pieces():
    small = [listing("s", f"{n:05d}/a", f"{n:05d}/z", 10) for n in range(10_000)]
    whole = [listing("w", f"{n:05d}-", f"{n:05d}-z", 1000) for n in range(10_000)]
    parts = ranges_of([*small, *whole], lambda one: [Block(one[1].first, one[1].count, 0, 0, "")], Cutting())
    assert len(parts) <= 10_000


def test_the_number_of_ranges_is_limited():
    lists = [listing(f"s{n}", "000000", "999999", 10**9) for n in range(2)]
    parts = ranges_of(lists, lambda _: [Block(f"{n:06d}", 10**5, 0, 0, "") for n in range(10**4)], Cutting())
    assert 5_000 <= len(parts) <= 10_000
