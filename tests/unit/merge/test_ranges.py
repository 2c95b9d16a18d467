"""Cutting names into ranges, by what lists and their heads say."""

from itertools import pairwise

import pytest

from datamon.core.names import NameRange, sort_key
from datamon.lists.cutting import Cutting
from datamon.lists.format import Block
from datamon.lists.reference import ListRef
from datamon.merge.inputs import MergeInput, MergeTask, Role, Sizes
from datamon.merge.ranges import Part, plan_merge

EVERY_NAME_BEGINS_A_LIST = Cutting(block_entries=1, list_entries=1)


def listed(first, last, count=100, **fields):
    return ListRef("0" * 64, "", count, 0, first, last, 0, index="i", **fields)


def peer(split, *references):
    return MergeInput(split, Role.PEER, references, f"{split}/")


def base(*references):
    return MergeInput("base", Role.BASE, references)


def not_opened(pair):
    raise AssertionError(f"{pair} is opened")


def plan(inputs, blocks_of=not_opened, sizes=None):
    return plan_merge(MergeTask(inputs, sizes=sizes or Sizes()), blocks_of, lambda _: False)


def blocks_of(count, per_block=250):
    """A list whose names are 000000, 000001, …"""

    def blocks(_):
        return [Block(f"{n:06d}", min(per_block, count - n), 0, 1, 1, "", "") for n in range(0, count, per_block)]

    return blocks


@pytest.mark.parametrize("splits", [2, 10, 200])
@pytest.mark.parametrize("shift", [0, 1])
def test_ranges_are_about_equal_though_all_lists_start_alike(splits, shift):
    count, target = 200_000 // splits, 5_000
    inputs = [peer(f"s{n:03d}", listed(f"{n * shift:06d}", f"{count - 1:06d}", count)) for n in range(splits)]
    sizes = Sizes(range_entries=target, cutting=EVERY_NAME_BEGINS_A_LIST)
    parts = plan(inputs, blocks_of(count), sizes)
    assert [a.names.stop for a in parts[:-1]] == [b.names.start for b in parts[1:]]
    bounds = [int(part.names.start) for part in parts] + [count]
    held = [splits * (b - a) for a, b in pairwise(bounds)]
    assert max(held) <= target + 2 * 250 * splits
    assert len(parts) >= (20 if splits < 200 else 2)


def test_ranges_are_cut_where_lists_of_the_result_begin():
    cutting = Cutting(block_entries=256, list_entries=1024)
    names = [f"{n:06d}" for n in range(200_000)]
    starts = [name for name in names if cutting.starts_block(name)]

    def blocks(_):
        return [Block(name, 256, 0, 1, 1, "", "") for name in starts]

    inputs = [peer(split, listed(names[0], names[-1], len(names))) for split in ("s", "t")]
    parts = plan(inputs, blocks, Sizes(5_000, cutting=cutting))
    assert len(parts) > 20
    assert all(cutting.starts_list(part.names.start) for part in parts[1:])


def test_what_is_only_copied_makes_larger_ranges():
    """A task costs Spark as much as copying some ten thousand entries."""
    together, sizes = listed("000000", "199999", 200_000), Sizes(5_000, cutting=EVERY_NAME_BEGINS_A_LIST)
    settled = plan([peer("s", together), peer("t", together)], blocks_of(200_000), sizes)
    copied = plan([peer("s", together)], blocks_of(200_000), sizes)
    assert len(copied) < len(settled) / 4
    for parts in (settled, copied):
        assert max(part.cost for part in parts) < 1.5 * 5_000


def test_names_that_begin_no_list_are_cut_all_the_same():
    """Somebody may choose them so; a range must not grow without end."""
    never = Cutting(block_entries=256, list_entries=1 << 60)
    parts = plan([peer("s", listed("000000", "199999", 200_000))], blocks_of(200_000), Sizes(5_000, cutting=never))
    assert len(parts) >= 8


def test_lists_of_the_base_that_nothing_touches_are_referred_to():
    lists = [listed(f"{n:02d}/a", f"{n:02d}/z") for n in range(10)]
    work = plan([base(*lists), peer("s", listed("05/b", "05/c"))])
    assert work == [*lists[:5], Part(NameRange("05\0a", "06\0a")), *lists[6:]]


@pytest.mark.parametrize(
    ("first", "last", "touched"),
    [
        ("03/zz", "03/zzz", [3]),  # between two lists: the one before is responsible
        ("00", "00", [0]),  # before all of them
        ("99", "99", [9]),
        ("03/b", "05/b", [3, 4, 5]),
    ],
)
def test_what_touches_a_list_of_the_base(first, last, touched):
    lists = [listed(f"{n:02d}/a", f"{n:02d}/z") for n in range(10)]
    work = plan([base(*lists), peer("s", listed(first, last))])
    assert [lists.index(one) for one in work if not isinstance(one, Part)] == [n for n in range(10) if n not in touched]


def test_the_deletion_of_a_folder_reaches_beyond_the_last_name():
    lists = [listed(f"a/{n}", f"a/{n}z") for n in range(5)] + [listed("b", "c")]
    work = plan([base(*lists), peer("s", listed("a/", "a/0", deletions=1))])
    assert work == [Part(NameRange("", "b")), lists[-1]]
    work = plan([base(*lists), peer("s", listed("/", "a/0", deletions=1))])
    assert work == [Part(NameRange("", None))]


def test_lists_of_what_lost_are_work_of_their_own():
    kept, lost = listed("a", "b"), listed(".conflicts/s/a", ".conflicts/s/b", lost=True)
    assert plan([base(kept, lost), peer("s", listed("a", "a"))])[-1] == lost
    work = plan([base(kept, lost), peer("s", listed(".conflicts/s/a", ".conflicts/s/a", deletions=1))])
    assert work[-1] == Part(NameRange(sort_key(lost.first), sort_key(lost.last) + "\1"), lost)


def test_no_inputs_are_no_work():
    assert plan([]) == []


def test_no_range_is_cut_below_a_file_of_the_base():
    inputs = [base(listed("000000", "000000"))]
    inputs += [peer(split, listed("000001", "199999", 200_000)) for split in ("s", "t")]
    task = MergeTask(inputs, sizes=Sizes(5_000, cutting=EVERY_NAME_BEGINS_A_LIST))
    parts = plan_merge(task, blocks_of(200_000), lambda key: key < "100000")
    assert all(part.names.start >= "100000" for part in parts[1:])
    assert len(parts) > 10


def test_the_number_of_ranges_is_limited():
    inputs = [peer(f"s{n}", listed("000000", "999999", 10**9)) for n in range(2)]
    sizes = Sizes(cutting=EVERY_NAME_BEGINS_A_LIST)
    blocks = [Block(f"{n:06d}", 10**5, 0, 1, 1, "", "") for n in range(10**4)]
    assert 5_000 <= len(plan(inputs, lambda _: blocks, sizes)) <= 10_000
