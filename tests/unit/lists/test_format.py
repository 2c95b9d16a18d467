"""Parts of a block, found by decoding a few of its names. Whole lists are in tests/property/test_lists.py."""

import pytest

from datamon.content.entry import Entry, Place
from datamon.core.errors import CorruptObject
from datamon.core.names import NameRange
from datamon.lists.format import make_block, rows_of

NAMES = ["b", "d/x", "d/y", "f"]
BLOCK = make_block(
    rows_of([Entry(name, "1" * 64, 1, 420, 0, time, Place("2" * 64, 0)) for time, name in enumerate(NAMES)])
)
KEYS = BLOCK.rows().keys
TIMES = BLOCK.rows().places


@pytest.mark.parametrize(
    ("names", "start", "stop"),
    [
        (NameRange(), 0, 4),
        (NameRange("a"), 0, 4),
        (NameRange("c"), 1, 4),
        (NameRange("d\0x", "d\0y"), 1, 2),
        (NameRange("", "f"), 0, 3),
        (NameRange("c", "d"), 1, 1),
        (NameRange("g"), 4, 4),
    ],
)
def test_the_rows_of_a_range_have_their_own_places(names, start, stop):
    rows = BLOCK.rows(names)
    assert (rows.keys, rows.places) == (KEYS[start:stop], TIMES[start:stop])


@pytest.mark.parametrize(("key", "before"), [("b\0x", 0), ("c", 0), ("d\0xx", 1), ("e", 2), ("z", 3)])
def test_the_row_before_a_name(key, before):
    rows = BLOCK.row_before(key)
    assert (rows.keys, rows.places) == ([KEYS[before]], [TIMES[before]])


def test_there_is_none_before_a_name_that_is_there():
    assert BLOCK.row_before("d\0y").keys == []


def test_a_block_that_does_not_begin_where_its_head_says_is_noticed():
    with pytest.raises(CorruptObject, match="does not begin with its `first`"):
        BLOCK.row_before("a")
