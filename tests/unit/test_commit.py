"""Merging lists of splits into lists of a bundle, without Spark."""

from dataclasses import replace

import pytest

from datamon import descriptors, keys
from datamon.commit import MergeTask, check_range, merge_range, read_splits
from datamon.errors import AlreadyExists, CorruptObject, NotFound, StaleWrite
from datamon.filelist import ListWriter
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.model import ConflictMode, Contributor, Entry, Order, Split, SplitState, TakenSplit
from datamon.names import EVERYTHING, NameRange, order
from datamon.ranges import NumberedRange
from datamon.stores import open_context
from tests.lists import old_list, opened

R, D, B = RepoName("r"), DiamondId("d"), BundleId("b")


@pytest.fixture
def context(tmp_path):
    return open_context(str(tmp_path))


def put_split(context, split, files, per_list=2, per_block=250, old=False):
    """A split with entries (name, content, time), in lists of a few each."""
    infos = []
    for number in range(0, len(files), per_list):
        some = files[number : number + per_list]
        entries = [Entry(name, content, 10, 420, 0, time, (f"pack-of-{split}", 0)) for name, content, time in some]
        index = keys.split_index(1, "abcdefgh", number)
        writer = ListWriter(per_block)
        writer.add(*entries)
        body, info = old_list(entries, index) if old else writer.seal(index)
        context.vmetadata.create(keys.split_files(R, D, SplitId(split), index), body)
        infos.append(info)
    return infos


def task(context, mode=ConflictMode.KEEP, by=Order.UPLOADED, laid_out=None, **splits):
    taken = [TakenSplit(SplitId(split), 1, position) for position, split in enumerate(splits)]
    lists = {SplitId(split): put_split(context, split, files, **laid_out or {}) for split, files in splits.items()}
    return MergeTask(R, D, B, mode, by, taken, lists)


def bundle_files(context):
    found = {}
    for key in context.metadata.keys(keys.bundles(R)):
        for entry in opened(context.metadata, key).entries():
            found[entry.name] = (entry.hash, entry.at[0])
    return found


A = [("both", "a", 1), ("x", "a", 1), ("y", "a", 9)]
C = [("both", "c", 2), ("x/1", "c", 2), ("y", "c", 3), ("z", "c", 1)]


def test_winners_and_losers_are_listed_with_where_their_bytes_are(context):
    report = merge_range(NumberedRange(0, EVERYTHING), task(context, a=A, c=C), context)
    assert bundle_files(context) == {
        ".conflicts/a/both": ("a", "pack-of-a"),
        ".conflicts/a/x": ("a", "pack-of-a"),
        ".conflicts/c/y": ("c", "pack-of-c"),
        "both": ("c", "pack-of-c"),
        "x/1": ("c", "pack-of-c"),
        "y": ("a", "pack-of-a"),
        "z": ("c", "pack-of-c"),
    }
    assert (report.files, report.bytes, report.conflicts) == (7, 70, 3)
    assert [info.index for info in report.lists] == ["00000-000", "c00000-000"]


@pytest.mark.parametrize(
    ("mode", "conflicts", "folder"),
    [
        (ConflictMode.KEEP, 3, ".conflicts/"),
        (ConflictMode.CHECKPOINTS, 3, ".checkpoints/"),
        (ConflictMode.IGNORE, 0, None),
        (ConflictMode.FORBID, 3, None),
    ],
)
def test_modes(context, mode, conflicts, folder):
    merge = task(context, mode, a=A, c=C)
    report = merge_range(NumberedRange(0, EVERYTHING), merge, context)
    assert report.conflicts == conflicts
    kept = [name for name in bundle_files(context) if name.startswith(".")]
    assert len(kept) == (3 if folder else 0)
    assert all(name.startswith(folder) for name in kept)
    assert report.files == 4 + len(kept)


def test_the_order_of_adding_needs_no_clock(context):
    merge_range(NumberedRange(0, EVERYTHING), task(context, by=Order.ADDED, a=A, c=C), context)
    assert bundle_files(context)["y"] == ("c", "pack-of-c")


def test_a_check_writes_nothing_and_names_the_splits(context):
    report = check_range(NumberedRange(0, EVERYTHING), task(context, ConflictMode.FORBID, a=A, c=C), context)
    assert bundle_files(context) == {}
    assert report.sample[0] == "'both' (splits a, c)"
    assert report.conflicts == 3


def test_any_cut_into_ranges_makes_the_same_bundle(context, tmp_path):
    merge_range(NumberedRange(0, EVERYTHING), task(context, a=A, c=C), context)
    for cut in ("both", "x", "x/0", "x/1", "y", "zz"):
        other = open_context(str(tmp_path / order(cut).replace("\0", "-")))
        merge = task(other, a=A, c=C)
        for number, names in enumerate([NameRange("", order(cut)), NameRange(order(cut))]):
            merge_range(NumberedRange(number, names), merge, other)
        assert bundle_files(other) == bundle_files(context)


def test_a_repeated_range_writes_the_same_bytes(context):
    merge = task(context, a=A, c=C)
    first = merge_range(NumberedRange(0, EVERYTHING), merge, context)
    assert merge_range(NumberedRange(0, EVERYTHING), merge, context) == first


def test_lists_of_another_commit_are_not_overwritten(context):
    merge = task(context, a=A, c=C)
    context.metadata.create(keys.bundle_files(R, B, "00000-000"), b"something else")
    with pytest.raises(AlreadyExists):
        merge_range(NumberedRange(0, EVERYTHING), merge, context)


def test_long_ranges_become_several_lists(context):
    report = merge_range(NumberedRange(3, EVERYTHING), replace(task(context, a=A, c=C), list_entries=2), context)
    assert [(info.index, info.count) for info in report.lists] == [
        ("00003-000", 2),
        ("00003-001", 2),
        ("c00003-000", 2),
        ("c00003-001", 1),
    ]


def test_a_list_that_was_tampered_with_is_not_merged(context):
    merge = task(context, a=A)
    key = keys.split_files(R, D, SplitId("a"), merge.lists[SplitId("a")][0].index)
    seen = context.vmetadata.get_versioned(key)
    context.vmetadata.replace(key, seen.body.replace(b'"mode":420', b'"mode":511'), seen.version)
    with pytest.raises(CorruptObject, match="digest"):
        merge_range(NumberedRange(0, EVERYTHING), merge, context)


def test_only_the_generation_that_was_taken_counts(context):
    split = Split(
        id=SplitId("s"),
        diamond=D,
        repo=R,
        state=SplitState.DONE,
        generation=2,
        revision=3,
        tag="",
        contributor=Contributor("Ada"),
        host="h",
        source="/",
        created="c",
        started="s",
    )
    context.vmetadata.create(keys.split(R, D, split.id), descriptors.dump(split))
    assert read_splits(context.vmetadata, R, D, [TakenSplit(split.id, 2, 0)]) == [split]
    with pytest.raises(StaleWrite):
        read_splits(context.vmetadata, R, D, [TakenSplit(split.id, 1, 0)])
    with pytest.raises(NotFound):
        read_splits(context.vmetadata, R, D, [TakenSplit(SplitId("t"), 1, 0)])
