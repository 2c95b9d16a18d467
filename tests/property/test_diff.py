"""Two bundles side by side, against a comparison of two dictionaries; and names that a filter can find."""

import re
import tempfile
from dataclasses import replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from datamon import keys
from datamon.diff import Change, diff
from datamon.filelist import ListWriter
from datamon.ids import BundleId
from datamon.model import Entry
from datamon.names import NameRange, found_by, order, prefixed
from datamon.stores import open_context
from tests.bundles import R, bundle_of
from tests.property.strategies import in_order_without_clashes, names
from tests.property.test_merge import short_names

hashes, modes, zero = st.sampled_from(["a" * 64, "b" * 64]), st.sampled_from([420, 493]), st.just(0)
files = st.builds(Entry, short_names, hashes, st.just(1), modes, zero, zero)
listings = st.lists(files, max_size=12).map(in_order_without_clashes)


def put(context, name, entries, per_list):
    """A bundle in lists of a few entries each."""
    infos = []
    for number in range(0, len(entries), per_list):
        writer = ListWriter()
        writer.add(*entries[number : number + per_list])
        body, info = writer.seal(keys.bundle_index(number, 0))
        context.metadata.create(keys.bundle_files(R, BundleId(name), info.index), body)
        infos.append(info)
    return replace(bundle_of(infos), id=BundleId(name))


@settings(max_examples=100, deadline=None)
@given(listings, listings, st.integers(1, 5), st.sampled_from(["", "x", "x/", "y/z"]))
def test_a_diff_says_what_a_comparison_of_all_files_would(one, other, per_list, prefix):
    with tempfile.TemporaryDirectory() as folder:
        context = open_context(folder)
        bundles = [put(context, name, entries, per_list) for name, entries in (("a", one), ("b", other))]
        found = list(diff(context, *bundles, prefixed(prefix)))
    was, now = ({e.name: e for e in entries if e.name.startswith(prefix)} for entries in (one, other))
    changed = {n for n in was.keys() & now.keys() if (was[n].hash, was[n].mode) != (now[n].hash, now[n].mode)}
    expected = dict.fromkeys(now.keys() - was.keys(), Change.ADDED)
    expected |= dict.fromkeys(was.keys() - now.keys(), Change.REMOVED) | dict.fromkeys(changed, Change.CHANGED)
    assert {one.name: one.change for one in found} == expected
    assert [one.name for one in found] == sorted(expected, key=order)
    assert all((one.before, one.after) == (was.get(one.name), now.get(one.name)) for one in found)


def test_lists_that_both_bundles_have_stay_closed(tmp_path):
    context = open_context(str(tmp_path))
    entries = [Entry(name, "a" * 64, 1, 420, 0, 0) for name in "abcd"]
    before = put(context, "a", entries, 2)
    after = put(context, "b", [*entries[:2], msgspec.structs.replace(entries[2], hash="b" * 64), entries[3]], 2)
    for bundle in (before, after):
        context.metadata.delete(keys.bundle_files(R, bundle.id, bundle.lists[0].index))
    assert [(one.name, one.change) for one in diff(context, before, after)] == [("c", Change.CHANGED)]
    assert list(diff(context, before, before)) == []


@given(names, st.sampled_from(["^{}", "^{}.*$", "{}", r"\A{}", "^{}+", "^{}*x?", "^{}|other", "^({})"]), st.data())
def test_a_filter_finds_nothing_outside_its_range(name, form, data):
    start = name[: data.draw(st.integers(1, len(name)))]
    pattern = form.format(re.escape(start))
    if re.search(pattern, name):
        assert found_by(pattern).holds(order(name))


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
    assert not found or found_by(pattern).holds(order(name))


def test_filters_that_lead_to_one_folder():
    assert found_by(r"^2026/03/.*\.csv$") == prefixed("2026/03/")
    assert found_by(r"\Aa\.b/c*") == prefixed("a.b/")
    assert found_by(r"^2026/03/.*\.(csv|json)$") == prefixed("2026/03/")
    assert found_by("2026") == found_by("(?i)^a") == found_by("^a|b") == NameRange()
