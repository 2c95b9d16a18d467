"""A merge reads its slices and no more, and its memory goes by its range: counted, not timed."""

import pytest

from bench.load import Load, write_diamond
from datamon.bundles.reader import bundle_lists
from datamon.content.entry import Entry, Place
from datamon.lists import reader
from datamon.lists.cutting import Cutting
from datamon.lists.writer import UploadListWriter
from datamon.merge.inputs import MergeInput, MergeTask, Role, Sizes
from datamon.merge.kernel import merge_part, work_of
from datamon.merge.modes import ConflictMode, Order
from datamon.stores import keys
from datamon.stores.context import Context, open_context
from datamon.stores.directory import DirectoryStore
from tests.unit.sources.test_memory import peak

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
    reader._recent.clear()  # what other tests have read is forgotten at some moment, and then read again
    whole = open_context(str(tmp_path))
    return Context(whole.blob, whole.metadata, CountingStore(whole.vmetadata.url))


def held(context, split, names, time=1, per_list=50_000):
    """A split with these names, in order."""
    references = []
    for number in range(0, len(names), per_list):
        writer = UploadListWriter(Cutting(block_entries=64))
        some = names[number : number + per_list]
        writer.add(*(Entry(name, f"{len(name):064x}", 1, 420, 0, time, Place(PACK, 0)) for name in some))
        body, reference = writer.seal(keys.upload_index(1, "abcdefgh", number // per_list))
        context.vmetadata.create(keys.uploaded_list(f"{split}/", reference.index), body)
        references.append(reference)
    return references


def task(lists, order=Order.UPLOADED, **sizes):
    inputs = [
        MergeInput(split, Role.PEER, references, f"{split}/", position)
        for position, (split, references) in enumerate(lists.items())
    ]
    cutting = Cutting(block_entries=64, list_entries=256)
    return MergeTask(inputs, ConflictMode.KEEP, order, Sizes(few_entries=1000, cutting=cutting, **sizes))


def files_of(context, reports):
    references = [reference for report in reports for reference in report.lists]
    return [entry.name for entry in bundle_lists(context, references).entries()]


def test_ten_splits_with_the_same_names_are_cut_and_read_once(context):
    names = [f"{n // 100:03d}/{n % 100:02d}" for n in range(3000)]
    merge = task({f"s{n}": held(context, f"s{n}", names) for n in range(10)}, range_entries=3000)
    size = sum(len(context.vmetadata.get(key)) for key in context.vmetadata.keys(""))
    context.vmetadata.read = context.vmetadata.largest = 0
    parts = work_of(merge, context)
    assert 5 <= len(parts) <= 10
    reports = [merge_part(part, merge, context) for part in parts]
    assert max(report.files for report in reports) <= 300 + 512  # a range ends where a list begins
    assert files_of(context, reports) == names
    assert context.vmetadata.read < 4 * size  # slices end in the middle of blocks, and these lists are short
    assert context.vmetadata.largest < size / 12


def test_a_file_against_a_folder_of_many_ranges_does_not_read_the_folder_in_each(context):
    """The file is older than one version in the last block of the folder, and newer than all others."""
    names = [f"data/{n:06d}" for n in range(20_000)]
    folder = held(context, "many", names[:-1], time=1, per_list=5_000)
    late = held(context, "late", [names[-1]], time=3)
    merge = task({"many": folder, "late": late, "file": held(context, "file", ["data"], time=2)}, range_entries=1000)
    context.vmetadata.read = 0
    parts = work_of(merge, context)
    assert len(parts) >= 18
    reports = [merge_part(part, merge, context) for part in parts]
    size = sum(len(context.vmetadata.get(key)) for key in context.vmetadata.keys(""))
    assert context.vmetadata.read < 8 * size
    assert sum(report.conflicts for report in reports) == 1
    assert sorted(files_of(context, reports)) == sorted([*names, ".conflicts/file/data"])


class RemoteStore(CountingStore):
    """One whose requests are worth a thread each, as S3's are."""

    is_remote = True


def test_a_task_makes_two_requests_for_each_list_at_most(context):
    """The head, and the slice. What may stand above the first name is in the slice, or nowhere."""
    far = Context(context.blob, context.metadata, RemoteStore(context.vmetadata.url))
    names = [f"d/{n:05d}" for n in range(1000)]
    merge = task({f"s{n:02d}": held(far, f"s{n:02d}", names) for n in range(40)}, range_entries=10_000)
    parts = work_of(merge, far)
    assert len(parts) >= 3
    assert far.vmetadata.requests <= 40
    files = 0
    for part in parts:
        far.vmetadata.requests = 0
        files += merge_part(part, merge, far).files
        assert far.vmetadata.requests <= 2 * 40
    assert files == 1000


@pytest.mark.parametrize("by", Order)
def test_requests_for_a_file_against_a_folder_grow_with_the_ranges_only(context, by):
    def requests(number):
        names = [f"{number}/{n:06d}" for n in range(number * 1000)]

        many, file = f"many{number}", f"file{number}"
        splits = {many: held(context, many, names, per_list=1000), file: held(context, file, [f"{number}"])}
        merge = task(splits, order=by, range_entries=1000)
        context.vmetadata.requests = 0
        reports = [merge_part(part, merge, context) for part in work_of(merge, context)]
        assert len(reports) >= number / 2
        assert sum(report.conflicts for report in reports) in (1, number * 1000)
        return context.vmetadata.requests

    assert requests(20) < 2.5 * requests(10)


HOT = """
import sys
from bench.load import REPO
from datamon.bundles.model import TakenSplit
from datamon.diamonds.commit import merge_task, read_splits
from datamon.merge.kernel import merge_part, work_of
from datamon.merge.modes import ConflictMode, Order
from datamon.stores.context import open_context

context = open_context(sys.argv[1])
taken = [TakenSplit(f"split-{n:05d}", 1, n) for n in range(10)]
splits = read_splits(context.vmetadata, REPO, sys.argv[2], taken)
task = merge_task(splits, taken, ConflictMode.KEEP, Order.UPLOADED)
for part in work_of(task, context):
    merge_part(part, task, context)
"""


def test_a_hot_range_needs_no_more_memory_than_any_other(tmp_path):
    """200,000 entries of ten splits with the same names would be 300 MB; a range of them is a quarter of that."""
    diamond, files = write_diamond(Load(200_000, shape="same"), str(tmp_path))
    assert files == 200_000
    assert peak(HOT, tmp_path, diamond) < 180 << 20
