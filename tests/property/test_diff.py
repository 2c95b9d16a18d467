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
MANY = [Entry(f"{number:03d}", "a" * 64, 1, 420, 0, 0) for number in range(100)]
edits = st.dictionaries(
    st.sampled_from([*(entry.name for entry in MANY), "0505", "099x"]), hashes | st.none(), max_size=5
)


def edited(entries, changes):
    """Some entries with other content, or gone; what was not there comes. All were uploaded later."""
    files = {entry.name: entry for entry in entries}
    files |= {name: Entry(name, content, 1, 420, 0, 0) for name, content in changes.items() if content is not None}
    kept = [entry for name, entry in files.items() if changes.get(name, "") is not None]
    return sorted(
        (msgspec.structs.replace(entry, timestamp=7) for entry in kept), key=lambda entry: sort_key(entry.name)
    )


def put(context, name, entries, cutting=SMALL):
    """A reader of a bundle that holds these entries."""
    return BundleReader(context, bundle_of(put_lists(context, entries, cutting), id=BundleId(name)))


@settings(max_examples=100)
@given(
    st.tuples(listings, listings) | edits.map(lambda changes: (MANY, edited(MANY, changes))),
    st.sampled_from(["", "x", "x/", "y/z", "05"]),
)
def test_a_diff_says_what_a_comparison_of_all_files_would(both, prefix):
    one, other = both
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
    before, after = put(context, "a", MANY), put(context, "b", edited(MANY, {"050": "b" * 64}))
    same = {one.identity for one in before.bundle.lists} & {one.identity for one in after.bundle.lists}
    assert len(same) == len(before.bundle.lists) - 1 > 3
    for one in (*before.bundle.lists, *after.bundle.lists):
        if one.identity in same:
            context.metadata.delete(keys.file_list(one.digest))
    assert [(one.name, one.change) for one in diff(before, after)] == [("050", Change.CHANGED)]
    assert list(diff(before, before)) == []


def test_of_lists_that_differ_only_the_blocks_that_do_are_decoded(tmp_path):
    """The bytes of the others are damaged, and nobody notices."""
    context = open_context(str(tmp_path))
    one_list = Cutting(block_entries=2, list_entries=1 << 20)
    before = put(context, "a", MANY, one_list)
    after = put(context, "b", edited(MANY, {"050": "b" * 64, "0505": "b" * 64, "080": None}), one_list)
    heads = [reader.lists.open(reader.bundle.lists[0]).head for reader in (before, after)]
    shared = set.intersection(*({block.identity for block in head.blocks} for head in heads))
    assert 1 <= len(heads[0].blocks) - len(shared) <= 4
    for reader, head in zip((before, after), heads, strict=True):
        path = tmp_path / "metadata" / keys.file_list(reader.bundle.lists[0].digest)
        body = bytearray(path.read_bytes())
        for block, offset in zip(head.blocks, head.offsets, strict=False):
            if block.identity in shared:
                body[offset + 20 : offset + 30] = b"x" * 10
        path.chmod(0o644)
        path.write_bytes(body)
    changes = [("050", Change.CHANGED), ("0505", Change.ADDED), ("080", Change.REMOVED)]
    assert [(one.name, one.change) for one in diff(before, after)] == changes


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
