"""However names are cut, and whether lists are taken as they are or merged entry by entry: the bundle is the same."""

import tempfile
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.commit import check_range, merge_range, ranges_to_merge
from datamon.model import ConflictMode
from datamon.names import is_below, order
from datamon.ranges import Cutting
from datamon.stores import open_context
from tests.property.test_merge import short_names
from tests.unit.test_commit import bundle_files, task


@st.composite
def splits(draw):
    """Some splits, each with its files in name order and no file below another."""
    found = {}
    for split in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True)):
        kept = []
        for name in sorted(draw(st.sets(short_names, max_size=8)), key=order):
            if not kept or not is_below(order(name), order(kept[-1])):
                kept.append(name)
        found[split] = [(name, draw(st.sampled_from("xy")), draw(st.integers(1, 3))) for name in kept]
    return found


@settings(max_examples=150, deadline=None)
@given(
    splits(),
    st.integers(1, 9),
    st.sampled_from([1, 2, 1000]),
    st.sampled_from([ConflictMode.KEEP, ConflictMode.FORBID]),
)
def test_neither_the_cut_nor_taking_lists_whole_changes_anything(found, entries, whole_from, mode):
    outcomes = []
    for cutting in (Cutting(1000, 1000, whole_from=1000), Cutting(entries, 1, whole_from), Cutting(1, 1, 1)):
        with tempfile.TemporaryDirectory() as folder:
            context = open_context(folder)
            merge = replace(task(context, mode, **found), cutting=cutting)
            parts = ranges_to_merge(merge, context)
            checked = [check_range(part, merge, context) for part in parts]
            merged = [merge_range(part, merge, context) for part in parts]
            for field in ("files", "bytes", "conflicts"):
                assert total(merged, field) == total(checked, field)
            outcomes.append((total(merged, "files"), total(merged, "conflicts"), bundle_files(context)))
    assert outcomes[1:] == outcomes[:1] * 2


def total(reports, field):
    return sum(getattr(report, field) for report in reports)
