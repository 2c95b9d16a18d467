"""However names are cut, and whether lists are taken as they are or merged entry by entry: the bundle is the same."""

import tempfile
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.commit import check_range, merge_range, ranges_to_merge
from datamon.model import ConflictMode, Order
from datamon.names import is_below, order
from datamon.ranges import Cutting
from datamon.stores import open_context
from tests.property.test_merge import short_names
from tests.unit.test_commit import bundle_files, task

odd = st.sampled_from(["x", "y", "x-1", "\x01", '"', "\\", "\n", "é", "😀"])
odd_names = st.lists(odd, min_size=1, max_size=3).map("/".join)


@st.composite
def splits(draw):
    """Some splits, each with its files in name order and no file below another."""
    found = {}
    for split in draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True)):
        kept = []
        for name in sorted(draw(st.sets(short_names | odd_names, max_size=9)), key=order):
            if not kept or not is_below(order(name), order(kept[-1])):
                kept.append(name)
        found[split] = [(name, draw(st.sampled_from("xy")), draw(st.integers(1, 3))) for name in kept]
    return found


layouts = st.fixed_dictionaries({"per_list": st.integers(1, 5), "per_block": st.integers(1, 3), "old": st.booleans()})
cuttings = st.builds(
    Cutting,
    st.integers(1, 9),
    st.integers(1, 3),
    whole_from=st.sampled_from([1, 2, 1000]),
    per_block=st.integers(0, 3),
    strip_entries=st.integers(1, 4),
    strip_piece=st.integers(0, 1),
)


@settings(max_examples=250, deadline=None)
@given(splits(), layouts, cuttings, st.sampled_from([ConflictMode.KEEP, ConflictMode.FORBID]), st.sampled_from(Order))
def test_neither_the_layout_nor_the_cut_nor_taking_lists_whole_changes_anything(found, laid_out, cutting, mode, by):
    in_one = Cutting(1000, 1000, whole_from=1000)
    plain = {"per_list": 100}
    assert bundle(found, plain, in_one, mode, by) == bundle(found, laid_out, cutting, mode, by)


def bundle(found, laid_out, cutting, mode, by):
    """What a commit makes of some splits: counts, and every file with where it is from."""
    with tempfile.TemporaryDirectory() as folder:
        context = open_context(folder)
        merge = replace(task(context, mode, by, laid_out, **found), cutting=cutting)
        parts = ranges_to_merge(merge, context)
        checked = [check_range(part, merge, context) for part in parts]
        merged = [merge_range(part, merge, context) for part in parts]
        counts = [total(merged, field) for field in ("files", "bytes", "conflicts")]
        assert counts == [total(checked, field) for field in ("files", "bytes", "conflicts")]
        return counts, bundle_files(context)


def total(reports, field):
    return sum(getattr(report, field) for report in reports)
