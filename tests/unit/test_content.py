"""Files into the store and out of it again, without Spark."""

import os
import random
from dataclasses import replace

import pytest

from datamon import content, keys
from datamon.content import CHUNK_BYTES, PACK_BYTES, SMALL_BYTES, Upload, upload_part
from datamon.errors import SourceChanged
from datamon.filelist import FileList
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.names import EVERYTHING
from datamon.plan import Part, Source, make_plan, walk
from datamon.stores import open_context


@pytest.fixture
def context(tmp_path):
    return open_context(str(tmp_path / "store"))


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def upload(tree, context, generation=1, clock=lambda: 7, **options):
    source = Source(str(tree), **options)
    plan = make_plan(source, 2)
    shared = Upload(RepoName("r"), DiamondId("d"), SplitId("s"), generation, plan.digest, source, context)
    return [upload_part(part, shared, clock) for part in plan.parts]


def lists(context):
    return [FileList(key, context.vmetadata.get(key)) for key in context.vmetadata.keys("")]


def contents(context):
    """Every file of every list, read back."""
    read = {}
    for found in lists(context):
        pairs = iter([(entry, found.packs[entry.at[0]] if entry.at else None) for entry in found.entries()])
        for span in content.spans(pairs):
            content.fetch(span, context.blob, lambda entry, pieces: read.update({entry.name: b"".join(pieces)}))
    return read


def test_small_files_share_a_pack_and_come_back(tree, context):
    files = {f"f{n:03d}": bytes([n % 256]) * n for n in range(300)}
    for name, data in files.items():
        (tree / name).write_bytes(data)
    [report] = upload(tree, context)
    assert (report.files, report.bytes) == (300, sum(map(len, files.values())))
    assert report.stored == report.bytes
    assert len(list(context.blob.keys())) == 1
    assert contents(context) == files


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES - 1, SMALL_BYTES, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES])
def test_every_size_comes_back(tree, context, size):
    data = random.Random(size).randbytes(size)
    (tree / "f").write_bytes(data)
    [report] = upload(tree, context)
    assert contents(context) == {"f": data}
    chunks = list(context.blob.keys("chunks/"))
    assert len(chunks) == (-(-size // CHUNK_BYTES) if size >= SMALL_BYTES else 0)
    assert report.bytes == size


def test_packs_are_filled_up_to_their_size(tree, context):
    rng = random.Random(1)
    for number in range(14):
        (tree / f"{number:02d}").write_bytes(rng.randbytes(SMALL_BYTES - 1))
    source = Source(str(tree))
    whole = sum(found.fingerprint for found in walk(source)) % (1 << 128)
    shared = Upload(RepoName("r"), DiamondId("d"), SplitId("s"), 1, "plan", source, context)
    upload_part(Part(0, EVERYTHING, 14, 14 * (SMALL_BYTES - 1), whole), shared)
    sizes = [len(context.blob.get(key)) for key in context.blob.keys("packs/")]
    assert sorted(sizes) == [5 * (SMALL_BYTES - 1), 9 * (SMALL_BYTES - 1)]
    assert max(sizes) < PACK_BYTES + SMALL_BYTES


def test_equal_files_and_equal_chunks_are_stored_once(tree, context):
    block = random.Random(2).randbytes(CHUNK_BYTES)
    for name in ("a", "b", "c"):
        (tree / name).write_bytes(b"same")
    (tree / "large").write_bytes(block * 3)
    stored = sum(report.stored for report in upload(tree, context))
    assert stored < 4 + CHUNK_BYTES + 1000
    assert sum(report.stored for report in upload(tree, context, generation=2)) == 0
    assert contents(context)["c"] == b"same"


def test_entries_keep_name_order_across_packs_and_chunks(tree, context):
    (tree / "a").write_bytes(b"small")
    (tree / "b").write_bytes(bytes(SMALL_BYTES))
    (tree / "c").write_bytes(b"small too")
    (tree / "c").chmod(0o640)
    os.utime(tree / "c", ns=(5, 6))
    upload(tree, context)
    [found] = lists(context)
    a, b, c = found.entries()
    assert [e.name for e in (a, b, c)] == ["a", "b", "c"]
    assert b.root is not None
    assert (c.mode, c.mtime, c.timestamp, c.size) == (0o640, 6, 7, 9)


def test_a_repeated_task_finds_its_list_and_does_nothing(tree, context):
    (tree / "a").write_bytes(b"x")
    [first] = upload(tree, context)
    [again] = upload(tree, context, clock=lambda: 8)
    assert again.resumed
    assert again.info == first.info
    assert lists(context)[0].entries()[0].timestamp == 7


def test_of_two_runs_of_one_task_the_first_list_counts(tree, context):
    """A zombie that comes back at the last moment adopts what is there."""
    (tree / "a").write_bytes(b"x")
    seen = []

    def clock():  # while this run uploads, another one gets through
        if not seen:
            seen.append(1)
            seen.extend(upload(tree, context, clock=lambda: 5))
        return 9

    [report] = upload(tree, context, clock=clock)
    assert not report.resumed
    assert report.info == seen[1].info
    assert lists(context)[0].entries()[0].timestamp == 5


def test_a_changed_source_writes_beside_the_old_list(tree, context):
    (tree / "a").write_bytes(b"x")
    upload(tree, context)
    (tree / "a").write_bytes(b"longer")
    upload(tree, context)
    assert len(list(context.vmetadata.keys())) == 2


def test_a_file_that_changes_after_planning_is_named(tree, context):
    (tree / "a").write_bytes(b"x")
    source = Source(str(tree))
    plan = make_plan(source, 2)
    (tree / "a").write_bytes(b"longer")
    shared = Upload(RepoName("r"), DiamondId("d"), SplitId("s"), 1, plan.digest, source, context)
    with pytest.raises(SourceChanged, match="'a' changed"):
        upload_part(plan.parts[0], shared)
    assert list(context.vmetadata.keys()) == []


class ChangedWhileRead:
    """A blob store that is slow enough for somebody to write to the source while a chunk is stored."""

    def __init__(self, store, path):
        self._store, self._path = store, path

    def __getattr__(self, name):
        return getattr(self._store, name)

    def create(self, key, body):
        self._store.create(key, body)
        with self._path.open("ab") as file:
            file.write(b"more")


def test_a_file_that_changes_while_it_is_read_is_named_and_not_listed(tree, context):
    (tree / "big").write_bytes(bytes(2 * CHUNK_BYTES))
    slow = replace(context, blob=ChangedWhileRead(context.blob, tree / "big"))
    with pytest.raises(SourceChanged, match="'big' changed"):
        upload(tree, slow)
    assert list(context.vmetadata.keys()) == []


def test_the_bytes_of_a_root(tree, context):
    (tree / "f").write_bytes(bytes(CHUNK_BYTES) + b"x")
    upload(tree, context)
    [root] = context.blob.keys("roots/")
    chunks = sorted(key.rpartition("/")[2] for key in context.blob.keys("chunks/"))
    text = context.blob.get(root).decode()
    assert text.startswith("version: 1\nsize: 16777217\nchunk: 16777216\nchunks:\n- ")
    assert sorted(content.root_chunks(text.encode())) == chunks
    assert keys.root(root.rpartition("/")[2]) == root
