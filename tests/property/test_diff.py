"""Two bundles side by side, against a comparison of two dictionaries; and names that a filter can find."""

import re
import tempfile

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.bundles.diff import Change, diff
from datamon.bundles.reader import BundleReader
from datamon.content.entry import Entry
from datamon.core.ids import BundleId
from datamon.core.names import NameRange, range_of_pattern, sort_key, with_prefix
from datamon.lists.cutting import Cutting
from datamon.stores import keys
from datamon.stores.context import open_context
from tests.bundles import bundle_of, put_lists
from tests.property.strategies import in_order_without_clashes, names, short_names

SMALL = Cutting(block_entries=2, list_entries=4)
hashes, modes, zero = st.sampled_from(["a" * 64, "b" * 64]), st.sampled_from([420, 493]), st.just(0)
files = st.builds(Entry, short_names, hashes, st.just(1), modes, zero, zero)
listings = st.lists(files, max_size=12).map(in_order_without_clashes)


def put(context, name, entries, cutting=SMALL):
    """A reader of a bundle that holds these entries."""
    return BundleReader(context, bundle_of(put_lists(context, entries, cutting), id=BundleId(name)))


@settings(max_examples=100, deadline=None)
@given(listings, listings, st.sampled_from(["", "x", "x/", "y/z"]))
def test_a_diff_says_what_a_comparison_of_all_files_would(one, other, prefix):
    with tempfile.TemporaryDirectory() as folder:
        context = open_context(folder)
        before, after = (put(context, name, entries) for name, entries in (("a", one), ("b", other)))
        differences = list(diff(before, after, with_prefix(prefix)))
    was, now = ({e.name: e for e in entries if e.name.startswith(prefix)} for entries in (one, other))
    changed = {n for n in was.keys() & now.keys() if (was[n].hash, was[n].mode) != (now[n].hash, now[n].mode)}
    expected = dict.fromkeys(now.keys() - was.keys(), Change.ADDED)
    expected |= dict.fromkeys(was.keys() - now.keys(), Change.REMOVED) | dict.fromkeys(changed, Change.CHANGED)
    assert {one.name: one.change for one in differences} == expected
    assert [one.name for one in differences] == sorted(expected, key=sort_key)
    assert all((one.before, one.after) == (was.get(one.name), now.get(one.name)) for one in differences)


def test_lists_that_hold_the_same_stay_closed(tmp_path):
    """Also where they were uploaded at another time, so that they are not the same objects."""
    context = open_context(str(tmp_path))
    entries = [Entry(f"{number:03d}", "a" * 64, 1, 420, 0, 0) for number in range(100)]
    again = [msgspec.structs.replace(entry, timestamp=7) for entry in entries]
    again[50] = msgspec.structs.replace(entries[50], hash="b" * 64)
    before, after = put(context, "a", entries), put(context, "b", again)
    same = {one.identity for one in before.bundle.lists} & {one.identity for one in after.bundle.lists}
    assert len(same) == len(before.bundle.lists) - 1 > 3
    for one in (*before.bundle.lists, *after.bundle.lists):
        if one.identity in same:
            context.metadata.delete(keys.file_list(one.digest))
    assert [(one.name, one.change) for one in diff(before, after)] == [("050", Change.CHANGED)]
    assert list(diff(before, before)) == []


@given(names, st.sampled_from(["^{}", "^{}.*$", "{}", r"\A{}", "^{}+", "^{}*x?", "^{}|other", "^({})"]), st.data())
def test_a_filter_finds_nothing_outside_its_range(name, form, data):
    start = name[: data.draw(st.integers(1, len(name)))]
    pattern = form.format(re.escape(start))
    if re.search(pattern, name):
        assert range_of_pattern(pattern).holds(sort_key(name))


syntax = [
    "a",
    "b",
    "/",
    ".",
    "a*",
    "b+",
    "(a|b)",
    "[ab|]",
    "\\.",
    "a{0}",
    "b?",
    "(?#x)",
    "|",
    "(?:b/)*",
    "$",
    "\\w",
    "(?=a)",
    "*",
]
odd_names = st.lists(st.sampled_from(["a", "b", "|", "."]), min_size=1, max_size=4).map("/".join)


@given(odd_names, st.lists(st.sampled_from(syntax), max_size=6))
def test_no_expression_finds_anything_outside_its_range(name, parts):
    pattern = "^" + "".join(parts)
    try:
        found = re.search(pattern, name)
    except re.error:
        return
    assert not found or range_of_pattern(pattern).holds(sort_key(name))


def test_filters_that_lead_to_one_folder():
    assert range_of_pattern(r"^2026/03/.*\.csv$") == with_prefix("2026/03/")
    assert range_of_pattern(r"\Aa\.b/c*") == with_prefix("a.b/")
    assert range_of_pattern(r"^2026/03/.*\.(csv|json)$") == with_prefix("2026/03/")
    assert range_of_pattern("2026") == range_of_pattern("(?i)^a") == range_of_pattern("^a|b") == NameRange()
