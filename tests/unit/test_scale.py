"""A merge reads its slices and no more, and its memory goes by its range: counted, not timed."""

from dataclasses import replace

import pytest

from bench.load import Load, write_diamond
from datamon import filelist, keys
from datamon.commit import MergeTask, merge_range, ranges_to_merge
from datamon.filelist import ListWriter
from datamon.ids import SplitId
from datamon.model import ConflictMode, Entry, Order, TakenSplit
from datamon.ranges import Cutting
from datamon.stores import Context, DirectoryStore, open_context
from tests.unit.test_commit import B, D, R, bundle_files
from tests.unit.test_memory import peak

PACK = "ab" * 32


class CountingStore(DirectoryStore):
    """A directory that knows how many bytes were read from it, and how much at most at a time."""

    def __init__(self, root):
        super().__init__(root)
        self.read, self.largest, self.requests = 0, 0, 0

    def get(self, key, start=0, length=None):
        body = super().get(key, start, length)
        self.requests += 1
        self.read += len(body)
        self.largest = max(self.largest, len(body))
        return body


@pytest.fixture
def context(tmp_path):
    filelist._recent.clear()  # what other tests have read is forgotten at some moment, and then read again
    whole = open_context(str(tmp_path))
    return Context(whole.blob, whole.metadata, CountingStore(whole.vmetadata.url))


def held(context, split, names, time=1, per_list=50_000):
    """A split with these names, in order."""
    infos = []
    for number in range(0, len(names), per_list):
        writer = ListWriter()
        some = names[number : number + per_list]
        writer.add(*(Entry(name, f"{len(name):064x}", 1, 420, 0, time, (PACK, 0)) for name in some))
        body, info = writer.seal(keys.split_index(1, "abcdefgh", number // per_list))
        context.vmetadata.create(keys.split_files(R, D, SplitId(split), info.index), body)
        infos.append(info)
    return infos


def task(lists, **cutting):
    taken = [TakenSplit(SplitId(split), 1, position) for position, split in enumerate(lists)]
    return MergeTask(
        R, D, B, ConflictMode.KEEP, Order.UPLOADED, taken, lists, cutting=replace(Cutting(few_entries=1000), **cutting)
    )


def total(infos_by_split):
    return sum(info.count for infos in infos_by_split.values() for info in infos)


def test_ten_splits_with_the_same_names_are_cut_and_read_once(context):
    names = [f"{n // 100:03d}/{n % 100:02d}" for n in range(3000)]
    merge = task({SplitId(f"s{n}"): held(context, f"s{n}", names) for n in range(10)}, range_entries=3000)
    size = sum(len(context.vmetadata.get(key)) for key in context.vmetadata.keys(""))
    context.vmetadata.read = context.vmetadata.largest = 0
    parts = ranges_to_merge(merge, context)
    assert len(parts) == 10
    reports = [merge_range(part, merge, context) for part in parts]
    assert [report.files for report in reports] == pytest.approx([300] * 10, abs=250)
    assert len(bundle_files(context)) == len(names)
    assert context.vmetadata.read < 4 * size  # slices end in the middle of blocks, and these lists are short
    assert context.vmetadata.largest < size / 20


def test_a_file_against_a_folder_of_many_ranges_does_not_read_the_folder_in_each(context):
    """The file is older than one version in the last block of the folder, and newer than all others."""
    names = [f"data/{n:06d}" for n in range(20_000)]
    folder = held(context, "many", names[:-1], time=1, per_list=5_000)
    late = held(context, "late", [names[-1]], time=3)
    merge = task({"many": folder, "late": late, "file": held(context, "file", ["data"], time=2)}, range_entries=1000)
    context.vmetadata.read = 0
    parts = ranges_to_merge(merge, context)
    assert len(parts) >= 18
    reports = [merge_range(part, merge, context) for part in parts]
    size = sum(len(context.vmetadata.get(key)) for key in context.vmetadata.keys(""))
    assert context.vmetadata.read < 8 * size
    assert sum(report.conflicts for report in reports) == 1
    found = bundle_files(context)
    assert len(found) == 20_001
    assert ".conflicts/file/data" in found


class FarStore(CountingStore):
    """One whose requests are worth a thread each, as S3's are."""

    is_far = True


def test_a_task_makes_two_requests_for_each_list_at_most(context):
    """The head, and the slice. What may stand above the first name is in the slice, or nowhere."""
    far = Context(context.blob, context.metadata, FarStore(context.vmetadata.url))
    names = [f"d/{n:05d}" for n in range(1000)]
    merge = task({SplitId(f"s{n:02d}"): held(far, f"s{n:02d}", names) for n in range(40)}, range_entries=10_000)
    parts = ranges_to_merge(merge, far)
    assert len(parts) == 4
    assert far.vmetadata.requests <= 40
    for part in parts:
        far.vmetadata.requests = 0
        assert merge_range(part, merge, far).files == 250
        assert far.vmetadata.requests <= 2 * 40


@pytest.mark.parametrize("by", Order)
def test_requests_for_a_file_against_a_folder_grow_with_the_ranges_only(context, by):
    def requests(number):
        names = [f"{number}/{n:06d}" for n in range(number * 1000)]

        many, file = f"many{number}", f"file{number}"
        splits = {many: held(context, many, names, per_list=1000), file: held(context, file, [f"{number}"])}
        merge = replace(task(splits, range_entries=1000, whole_from=10**9), order=by, bundle=f"b{number}")
        context.vmetadata.requests = 0
        reports = [merge_range(part, merge, context) for part in ranges_to_merge(merge, context)]
        assert len(reports) >= number
        assert sum(report.conflicts for report in reports) in (1, number * 1000)
        return context.vmetadata.requests

    assert requests(20) < 2.5 * requests(10)


HOT = """
import sys
from bench.load import REPO
from datamon.commit import MergeTask, merge_range, ranges_to_merge, read_splits
from datamon.model import ConflictMode, Order, TakenSplit
from datamon.stores import open_context

context = open_context(sys.argv[1])
taken = [TakenSplit(f"split-{n:05d}", 1, n) for n in range(10)]
splits = read_splits(context.vmetadata, REPO, sys.argv[2], taken)
lists = {split.id: split.lists for split in splits}
task = MergeTask(REPO, sys.argv[2], "b", ConflictMode.KEEP, Order.UPLOADED, taken, lists)
for part in ranges_to_merge(task, context):
    merge_range(part, task, context)
"""


def test_a_hot_range_needs_no_more_memory_than_any_other(tmp_path):
    """200,000 entries of ten splits with the same names would be 300 MB; a range of them is a quarter of that."""
    diamond, files = write_diamond(Load(200_000, shape="same"), str(tmp_path))
    assert files == 200_000
    assert peak(HOT, tmp_path, diamond) < 180 << 20
