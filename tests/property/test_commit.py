"""Lists that are taken as they are make the same bundle as lists that are merged entry by entry."""

import tempfile
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.commit import NumberedRange, check_range, cut_names, merge_range
from datamon.model import ConflictMode
from datamon.names import is_below, order
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
@given(splits(), st.integers(1, 4), st.sampled_from([ConflictMode.KEEP, ConflictMode.FORBID]))
def test_taking_lists_whole_changes_nothing(found, ranges, mode):
    outcomes = []
    for taken_whole_from in (1, 1000):
        with tempfile.TemporaryDirectory() as folder:
            context = open_context(folder)
            merge = replace(task(context, mode, **found), taken_whole_from=taken_whole_from)
            lists = [info for infos in merge.lists.values() for info in infos]
            parts = [NumberedRange(number, names) for number, names in enumerate(cut_names(lists, ranges))]
            checked = [check_range(part, merge, context) for part in parts]
            merged = [merge_range(part, merge, context) for part in parts]
            counts = [(report.files, report.bytes, report.conflicts) for report in merged]
            assert counts == [(report.files, report.bytes, report.conflicts) for report in checked]
            outcomes.append((counts, bundle_files(context)))
    assert outcomes[0] == outcomes[1]
