"""The merge against a reference of a few lines: any mix of inputs, in any order, laid out and cut in any way."""

import tempfile
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamon.bundles.reader import bundle_lists
from datamon.content.entry import Entry
from datamon.lists.cutting import Cutting
from datamon.lists.writer import UploadListWriter
from datamon.merge.inputs import MergeInput, MergeTask, Role, Sizes
from datamon.merge.kernel import check_part, whole_merge, work_of
from datamon.merge.modes import ConflictMode, Order
from datamon.merge.ranges import Part
from datamon.merge.rules import Settled, Version, settle
from datamon.stores import keys
from datamon.stores.context import open_context
from tests.bundles import put_lists
from tests.property.reference import merged
from tests.property.strategies import bundles, changes, lost_files, splits

SMALL = Cutting(block_entries=2, list_entries=4)


@st.composite
def layouts(draw):
    """How finely everything is cut: lists of an upload, ranges, strips."""
    return {
        "per_list": draw(st.integers(1, 6)),
        "sizes": Sizes(
            range_entries=draw(st.sampled_from([1, 2, 5, 1000])),
            few_entries=1,
            strip_entries=draw(st.sampled_from([1, 3, 1000])),
            strip_piece=draw(st.integers(0, 1)),
            cutting=SMALL,
        ),
    }


def put_input(context, name, role, items, position, per_list):
    references = []
    for number in range(0, len(items), per_list):
        writer = UploadListWriter(SMALL)
        writer.add(*items[number : number + per_list])
        body, reference = writer.seal(f"{number}")
        context.vmetadata.create(keys.uploaded_list(f"{name}/", reference.index), body)
        references.append(reference)
    return MergeInput(name, role, references, f"{name}/", position)


def merge_task(context, base, peers, layers, layout, order=Order.UPLOADED, lost=()):
    of_base = put_lists(context, base, SMALL) if base else []
    of_base += [replace(one, lost=True) for one in (put_lists(context, lost, SMALL) if lost else [])]
    inputs = [MergeInput("base", Role.BASE, of_base)] if of_base else []
    for position, (name, items) in enumerate(peers.items()):
        inputs.append(put_input(context, name, Role.PEER, items, position, layout["per_list"]))
    for position, items in enumerate(layers):
        inputs.append(put_input(context, f"layer{position}", Role.LAYER, items, position, layout["per_list"]))
    return MergeTask(inputs, ConflictMode.KEEP, order, layout["sizes"])


def contents_of(context, references):
    return {entry.name: entry for entry in bundle_lists(context, references).entries()}


def check_merge(base, peers, layers, layout, random, order=Order.UPLOADED, lost=()):
    """The result is what the reference says, and is cut as if it had been written at once."""
    by_position = {name: position for position, name in enumerate(peers)}
    rank = (lambda item, peer: item.timestamp) if order is Order.UPLOADED else (lambda item, peer: by_position[peer])
    files, conflicts, kept_lost = merged(base, peers, layers, rank, lost)
    with tempfile.TemporaryDirectory() as folder:
        context = open_context(folder)
        task = merge_task(context, base, peers, layers, layout, order, lost)
        task = MergeTask(random.sample(task.inputs, len(task.inputs)), task.mode, task.order, task.sizes)
        if not base and not lost:
            checked = [check_part(part, task, context) for part in work_of(task, context) if isinstance(part, Part)]
            assert sum(report.conflicts for report in checked) == len(conflicts)
        references = whole_merge(task, context)
        kept = [reference for reference in references if not reference.lost]
        assert contents_of(context, kept) == files
        held = [entry for one in references if one.lost for entry in contents_of(context, [one]).values()]
        assert sorted((entry.name, entry.hash) for entry in held) == sorted(kept_lost.items())
        in_order = sorted(files.values(), key=lambda entry: entry.name.split("/"))
        assert kept == put_lists(context, in_order, SMALL)


randoms = st.randoms(use_true_random=False)


@settings(max_examples=150)
@given(st.lists(splits, min_size=1, max_size=4), layouts(), randoms, st.sampled_from(Order))
def test_splits_of_a_diamond(peers, layout, random, order):
    check_merge([], dict(zip("abcd", peers, strict=False)), [], layout, random, order)


@settings(max_examples=150)
@given(bundles, st.lists(changes, min_size=1, max_size=4), layouts(), randoms)
def test_layers_over_a_base(base, layers, layout, random):
    check_merge(base, {}, layers, layout, random)


@settings(max_examples=250)
@given(bundles, lost_files, st.lists(changes, max_size=3), st.lists(changes, max_size=3), layouts(), randoms)
def test_any_mix_of_inputs(base, lost, peers, layers, layout, random):
    check_merge(base, dict(zip("abc", peers, strict=False)), layers, layout, random, lost=lost)


def test_splits_of_a_base_that_they_replace_are_no_conflict(tmp_path):
    context = open_context(str(tmp_path))
    base, newer = ([Entry(name, digit * 64, 1, 420, 0, 1) for name in "abc"] for digit in "12")
    layout = {"per_list": 5, "sizes": Sizes(cutting=SMALL)}
    task = merge_task(context, base, {"s": newer}, [], layout)
    assert contents_of(context, whole_merge(task, context)) == {entry.name: entry for entry in newer}


def version(content, rank, peer):
    return Version("n", content, 1, (Role.PEER, rank, peer))


X1, Y2, X3, Z3 = (version(c, r, s) for c, r, s in [("x", 1, "a"), ("y", 2, "b"), ("x", 3, "c"), ("z", 3, "d")])
GONE4 = version("", 4, "e")


@pytest.mark.parametrize(
    ("versions", "settled"),
    [
        pytest.param([X1], Settled(X1), id="one version wins"),
        pytest.param([X1, Y2], Settled(Y2, (X1,)), id="the later wins, the earlier is kept"),
        pytest.param([X1, Y2, X3], Settled(X3, (Y2,)), id="equal content is no conflict"),
        pytest.param([X3, Z3], Settled(Z3, (X3,)), id="equal times go by split id"),
        pytest.param([X1, Y2, Z3], Settled(Z3, (X1, Y2)), id="every loser is kept under its own split"),
        pytest.param([X1, GONE4], Settled(GONE4, (X1,)), id="a deletion can win"),
    ],
)
def test_settle_in_any_order_of_arrival(versions, settled):
    for arrival in permutations(versions):
        assert settle(arrival) == settled
