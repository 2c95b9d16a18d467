"""Merging lists of splits into lists of a bundle, without Spark."""

from dataclasses import replace

import pytest

from datamon.bundles.model import TakenSplit
from datamon.bundles.reader import bundle_lists
from datamon.content.entry import Entry, Place
from datamon.core.contributors import Contributor
from datamon.core.errors import CorruptObject, NotFound, StaleWrite
from datamon.core.ids import SplitId
from datamon.core.names import EVERYTHING, NameRange, sort_key
from datamon.diamonds.commit import read_splits
from datamon.diamonds.model import Split, SplitState
from datamon.lists.format import Deletion
from datamon.lists.writer import UploadListWriter
from datamon.merge.inputs import MergeInput, MergeTask, Role, Sizes
from datamon.merge.kernel import check_part, merge_part, whole_merge, work_of
from datamon.merge.modes import ConflictMode, Order
from datamon.merge.ranges import Part
from datamon.stores import descriptors, keys
from datamon.stores.context import Context, open_context
from datamon.stores.directory import DirectoryStore
from tests.bundles import D, R, put_lists

ALL = Part(EVERYTHING)


@pytest.fixture
def context(tmp_path):
    return open_context(str(tmp_path))


def put_split(context, split, files, per_list=2):
    """The lists of a split with files (name, content, time), a few in each."""
    references = []
    for number in range(0, len(files), per_list):
        some = files[number : number + per_list]
        writer = UploadListWriter()
        writer.add(
            *(Entry(name, content, 10, 420, 0, time, Place(f"pack-of-{split}", 0)) for name, content, time in some)
        )
        body, reference = writer.seal(keys.upload_index(1, "abcdefgh", number))
        context.vmetadata.create(keys.uploaded_list(keys.split_folder(R, D, split), reference.index), body)
        references.append(reference)
    return references


def task(context, mode=ConflictMode.KEEP, by=Order.UPLOADED, **splits):
    inputs = [
        MergeInput(
            SplitId(split), Role.PEER, put_split(context, split, files), keys.split_folder(R, D, split), position
        )
        for position, (split, files) in enumerate(splits.items())
    ]
    return MergeTask(inputs, mode, by)


def files_of(context, *reports):
    references = [reference for report in reports for reference in report.lists]
    return {entry.name: (entry.hash, entry.at.pack) for entry in bundle_lists(context, references).entries()}


A = [("both", "a", 1), ("x", "a", 1), ("y", "a", 9)]
C = [("both", "c", 2), ("x/1", "c", 2), ("y", "c", 3), ("z", "c", 1)]


def test_winners_and_losers_are_listed_with_where_their_bytes_are(context):
    report = merge_part(ALL, task(context, a=A, c=C), context)
    assert files_of(context, report) == {
        ".conflicts/a/both": ("a", "pack-of-a"),
        ".conflicts/a/x": ("a", "pack-of-a"),
        ".conflicts/c/y": ("c", "pack-of-c"),
        "both": ("c", "pack-of-c"),
        "x/1": ("c", "pack-of-c"),
        "y": ("a", "pack-of-a"),
        "z": ("c", "pack-of-c"),
    }
    assert (report.files, report.bytes, report.conflicts) == (7, 70, 3)
    assert [(reference.count, reference.lost) for reference in report.lists] == [(4, False), (3, True)]


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
    report = merge_part(ALL, task(context, mode, a=A, c=C), context)
    assert report.conflicts == conflicts
    kept = [name for name in files_of(context, report) if name.startswith(".")]
    assert len(kept) == (3 if folder else 0)
    assert all(name.startswith(folder) for name in kept)
    assert report.files == 4 + len(kept)


def test_the_order_of_adding_needs_no_clock(context):
    report = merge_part(ALL, task(context, by=Order.ADDED, a=A, c=C), context)
    assert files_of(context, report)["y"] == ("c", "pack-of-c")


def test_a_check_writes_nothing_and_names_the_splits(context):
    report = check_part(ALL, task(context, ConflictMode.FORBID, a=A, c=C), context)
    assert list(context.metadata.keys()) == []
    assert report.sample[0] == "'both' (splits a, c)"
    assert report.conflicts == 3


def test_any_cut_into_ranges_makes_the_same_lists(context):
    merge = task(context, a=A, c=C)
    whole = whole_merge(merge, context)
    for cut in ("both", "x", "x/0", "x/1", "y", "zz"):
        assert whole_merge(merge, context, [NameRange("", sort_key(cut)), NameRange(sort_key(cut))])[0] == whole[0]


def test_a_repeated_range_writes_the_same_bytes(context):
    merge = task(context, a=A, c=C)
    assert merge_part(ALL, merge, context) == merge_part(ALL, merge, context)


def test_a_list_that_was_tampered_with_is_not_merged(context):
    merge = task(context, a=A)
    key = keys.uploaded_list(keys.split_folder(R, D, "a"), merge.inputs[0].lists[0].index)
    seen = context.vmetadata.get_versioned(key)
    context.vmetadata.replace(key, seen.body.replace(b'"mode":420', b'"mode":511'), seen.version)
    with pytest.raises(CorruptObject, match="digest"):
        merge_part(ALL, merge, context)


def test_a_damaged_list_is_not_taken_for_the_one_to_be_written(context):
    merge = task(context, a=A, c=C)
    [written, _] = merge_part(ALL, merge, context).lists
    key = keys.file_list(written.digest)
    context.metadata.replace(key, b"damaged", context.metadata.get_versioned(key).version)
    with pytest.raises(CorruptObject, match="its bytes do not match its digest"):
        merge_part(ALL, merge, context)


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


class RecordingStore(DirectoryStore):
    """A directory that knows which keys were read, and which were written."""

    def __init__(self, root):
        super().__init__(root)
        self.read, self.written = [], []

    def get(self, key, start=0, length=None):
        self.read.append(key)
        return super().get(key, start, length)

    def create(self, key, body):
        self.written.append(key)
        super().create(key, body)


def names_of(numbers):
    return [f"{number // 1000:03d}/{number % 1000:03d}" for number in numbers]


def files(names, digit="1"):
    return [Entry(name, digit * 64, 10, 420, 0, 1, Place("2" * 64, 0)) for name in names]


def layer(context, items, name="segment"):
    writer = UploadListWriter()
    writer.add(*items)
    body, reference = writer.seal("0")
    context.vmetadata.create(keys.uploaded_list(f"{name}/", "0"), body)
    return MergeInput(name, Role.LAYER, [reference], f"{name}/")


@pytest.fixture
def on_base(tmp_path):
    """A base of 100,000 files, and a store that records what is done to its lists."""
    whole = open_context(str(tmp_path))
    metadata = RecordingStore(whole.metadata.url)
    context = Context(whole.blob, metadata, whole.vmetadata)
    base = put_lists(context, files(names_of(range(100_000))))
    metadata.read.clear()
    metadata.written.clear()
    return context, MergeInput("base", Role.BASE, base)


def keys_of(references):
    return {keys.file_list(reference.digest) for reference in references}


def test_lists_of_the_base_that_nothing_touches_are_neither_read_nor_written(on_base):
    context, base = on_base
    changed = files(names_of(range(50_000, 50_100)), "3")
    merged = whole_merge(MergeTask([base, layer(context, changed)]), context)
    kept, new = set(merged) & set(base.lists), set(merged) - set(base.lists)
    assert len(new) <= 2 < len(kept)
    assert set(context.metadata.written) == keys_of(new)
    assert not set(context.metadata.read) & keys_of(kept)
    assert sum(one.count for one in merged) == 100_000


def test_a_few_changes_far_apart_touch_only_the_lists_they_fall_into(on_base):
    context, base = on_base
    changed = files(names_of([5, 99_995]), "3")
    merged = whole_merge(MergeTask([base, layer(context, changed)]), context)
    kept = set(merged) & set(base.lists)
    assert len(kept) == len(base.lists) - 2
    assert not set(context.metadata.read) & keys_of(kept)


def test_a_folder_is_deleted_by_one_entry_and_its_lists_stay_closed(on_base):
    context, base = on_base
    deletion = Deletion("050/", 1)
    larger = MergeTask([base, layer(context, [deletion])])
    merged = whole_merge(larger, context)
    assert sum(one.count for one in merged) == 99_000
    everything = whole_merge(MergeTask([base, layer(context, [Deletion("/", 1)], "all")]), context)
    assert everything == []


def test_a_large_folder_in_the_place_of_a_file_is_looked_up_once(on_base):
    context, base = on_base
    [file] = names_of([50_000])
    changed = layer(context, files([f"{file}/{number:05d}" for number in range(60_000)], "3"))
    [part] = [one for one in work_of(MergeTask([base, changed], sizes=Sizes(2_000)), context) if isinstance(one, Part)]
    assert part.names.holds(sort_key(file))
    assert len(context.metadata.read) <= 3, "a head and a block, and not for every place where it could be cut"


def test_nothing_to_merge_is_no_work(on_base):
    context, base = on_base
    assert work_of(MergeTask([base]), context) == list(base.lists)
    assert whole_merge(MergeTask([]), context) == []


def test_what_lost_in_the_base_goes_along(on_base):
    context, base = on_base
    lost = [replace(one, lost=True) for one in put_lists(context, files([".conflicts/s/a", ".conflicts/s/b"]))]
    both = MergeInput("base", Role.BASE, [*base.lists, *lost])
    merged = whole_merge(MergeTask([both, layer(context, files(["zzz"], "3"))]), context)
    assert merged[-1:] == lost
    gone = whole_merge(MergeTask([both, layer(context, [Deletion(".conflicts/s/a", 1)], "other")]), context)
    assert [(one.count, one.lost) for one in gone if one.lost] == [(1, True)]


def test_the_number_of_tasks_goes_by_what_is_touched(on_base):
    context, base = on_base
    work = work_of(MergeTask([base, layer(context, files(names_of([5]), "3"))]), context)
    assert sum(isinstance(one, Part) for one in work) == 1
