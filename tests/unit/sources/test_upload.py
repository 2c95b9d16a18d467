"""Files into the store and out of it again, without Spark."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from blake3 import blake3

from datamon.content import reading
from datamon.content.chunking import MAX_CHUNK, cut
from datamon.content.entry import PACK_BYTES, SMALL_BYTES, Entry, Place
from datamon.content.reading import GAP_BYTES
from datamon.content.roots import Root
from datamon.content.writing import MAX_WAITING_BYTES
from datamon.core.errors import CorruptObject, SourceChanged
from datamon.core.names import EVERYTHING, NameRange
from datamon.sources.plan import SLICE_BYTES, Part, make_plan
from datamon.sources.source import Source
from datamon.sources.tree import open_tree
from datamon.sources.upload import BaseBundle, Upload, find_chunks, upload_part, upload_slice
from datamon.stores import keys
from tests.bundles import FOLDER, D, R, bundle_of
from tests.conftest import closed
from tests.lists import opened


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def upload(tree, context, generation=1, clock=lambda: 7, **options):
    source = Source(str(tree), **options)
    plan = make_plan(open_tree(source, context), 2)
    shared = Upload(FOLDER, generation, plan.digest, source, context)
    slices = [upload_slice(piece, shared) for file in plan.huge for piece in find_chunks(file, shared)]
    parts = [upload_part(part, shared, clock=clock) for part in plan.parts]
    return [*slices, *parts]


def lists(context):
    return [opened(context.vmetadata, key) for key in context.vmetadata.keys("") if "bundle-files" in key]


def contents(context):
    """Every file of every list, read back."""
    read = {}
    for listed in lists(context):
        for what in reading.spans(listed.entries()):
            read |= span_contents(what, context) if isinstance(what, reading.Span) else large_content(what, context)
    return read


def span_contents(span, context):
    return {entry.name: bytes(data) for entry, data in reading.read_span(span, reading.get_span(span, context.blob))}


def test_a_huge_file_that_is_swapped_for_one_of_the_same_size_and_time_is_read_anew(tree, context):
    """Its chunks were found before the worker was killed; the retry must not list them under another hash."""
    with (tree / "huge").open("wb") as file:
        file.truncate(2 * SLICE_BYTES)
    os.utime(tree / "huge", ns=(5, 5))
    upload(tree, context)
    for key in list(context.vmetadata.keys()):
        if "bundle-files" in key:
            context.vmetadata.delete(key)
    with (tree / "huge").open("r+b") as file:
        file.write(b"other")
    os.utime(tree / "huge", ns=(5, 5))
    upload(tree, context)
    [entry] = lists(context)[0].entries()
    whole = blake3()
    whole.update_mmap(tree / "huge")
    assert entry.hash == whole.hexdigest()
    assert next(reading.read_range(entry, context.blob, 0, 5)) == b"other"


@pytest.mark.parametrize("lost", ["a slice", "the record"])
def test_a_huge_file_that_its_slices_have_not_stored_is_stored_with_its_part(tree, context, lost):
    """A disk failed for a moment, and what cannot be read is to be left out; or the file was touched in between."""
    with (tree / "huge").open("wb") as file:
        file.truncate(2 * SLICE_BYTES)
        file.write(b"the end")
    source = Source(str(tree), skip_on_error=True)
    plan = make_plan(open_tree(source, context), 2)
    shared = Upload(FOLDER, 1, plan.digest, source, context)
    if lost == "a slice":
        slices = find_chunks(plan.huge[0], shared)
        with closed(tree):
            reports = [upload_slice(piece, shared) for piece in slices]
        assert {report.unstored for report in reports} == {"huge"}
        shared = replace(shared, unstored=frozenset({"huge"}))
    for part in plan.parts:
        upload_part(part, shared)
    [entry] = lists(context)[0].entries()
    whole = blake3()
    whole.update_mmap(tree / "huge")
    assert entry.hash == whole.hexdigest()
    assert b"".join(reading.read_range(entry, context.blob, entry.size - 7)) == bytes(7)


@pytest.mark.parametrize("how", ["rename", "write"])
def test_a_file_that_changes_while_it_is_read_is_noticed_although_its_mtime_is_as_before(tree, how):
    """Another one takes its place, or somebody writes to it and sets its mtime back."""
    (tree / "f").write_bytes(b"a" * 100)
    os.utime(tree / "f", ns=(5, 5))
    source = open_tree(Source(str(tree)))
    pieces = source.pieces(next(source.walk()), 40)
    next(pieces)
    other = tree / "other" if how == "rename" else tree / "f"
    with other.open("r+b" if other.exists() else "wb") as file:
        file.write(b"b" * 100)
    os.utime(other, ns=(5, 5))
    other.rename(tree / "f")
    with pytest.raises(SourceChanged, match="'f'"):
        list(pieces)


def large_content(entry, context):
    with ThreadPoolExecutor(2) as threads:
        root = reading.read_root(entry, context.blob)
        return {entry.name: b"".join(reading.read_large(entry, root, context.blob, threads))}


def test_small_files_share_a_pack_and_come_back(tree, context):
    files = {f"f{n:03d}": bytes([n % 256]) * n for n in range(300)}
    for name, data in files.items():
        (tree / name).write_bytes(data)
    [report] = upload(tree, context)
    assert (report.files, report.bytes) == (300, sum(map(len, files.values())))
    assert report.stored < report.bytes / 10, "they are compressed together"
    assert len(list(context.blob.keys())) == 1
    assert contents(context) == files


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES - 1, SMALL_BYTES, MAX_CHUNK, MAX_CHUNK + 1, 20 << 20])
def test_every_size_comes_back(tree, context, size):
    data = random.Random(size).randbytes(size)
    (tree / "f").write_bytes(data)
    [report] = upload(tree, context)
    assert contents(context) == {"f": data}
    chunks = list(context.blob.keys("chunks/"))
    assert len(chunks) == (len(list(cut([data]))) if size >= SMALL_BYTES else 0)
    assert report.bytes == size


def test_packs_are_filled_up_to_their_size(tree, context):
    rng = random.Random(1)
    for number in range(20):
        (tree / f"{number:02d}").write_bytes(rng.randbytes(SMALL_BYTES - 1))
    source = Source(str(tree))
    whole = sum(file.fingerprint for file in open_tree(source).walk()) % (1 << 128)
    shared = Upload(FOLDER, 1, "plan", source, context)
    upload_part(Part(0, EVERYTHING, 20, 20 * (SMALL_BYTES - 1), whole), shared)
    sizes = [len(context.blob.get(key)) for key in context.blob.keys("packs/")]
    assert sorted(sizes) == [3 * (SMALL_BYTES - 1), 17 * (SMALL_BYTES - 1)]
    assert max(sizes) < PACK_BYTES + SMALL_BYTES


def test_equal_files_and_equal_chunks_are_stored_once(tree, context):
    block = random.Random(2).randbytes(20 << 20)
    for name in ("a", "b", "c"):
        (tree / name).write_bytes(b"same")
    (tree / "large").write_bytes(block * 3)
    stored = sum(report.stored for report in upload(tree, context))
    assert stored < len(block) + 2 * MAX_CHUNK, "but for the chunks in which one block ends and the next begins"
    assert sum(report.stored for report in upload(tree, context, generation=2)) == 0
    assert contents(context)["c"] == b"same"


def test_entries_keep_name_order_across_packs_and_chunks(tree, context):
    (tree / "a").write_bytes(b"small")
    (tree / "b").write_bytes(bytes(SMALL_BYTES))
    (tree / "c").write_bytes(b"small too")
    (tree / "c").chmod(0o640)
    os.utime(tree / "c", ns=(5, 6))
    upload(tree, context)
    [listed] = lists(context)
    a, b, c = listed.entries()
    assert [e.name for e in (a, b, c)] == ["a", "b", "c"]
    assert b.root is not None
    assert (c.mode, c.mtime, c.timestamp, c.size) == (0o640, 6, 7, 9)


def test_a_repeated_task_finds_its_list_and_does_nothing(tree, context):
    (tree / "a").write_bytes(b"x")
    [first] = upload(tree, context)
    [again] = upload(tree, context, clock=lambda: 8)
    assert again.resumed
    assert again.listed == first.listed
    assert next(lists(context)[0].entries()).timestamp == 7


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
    assert report.listed == seen[1].listed
    assert next(lists(context)[0].entries()).timestamp == 5


def test_a_changed_source_writes_beside_the_old_list(tree, context):
    (tree / "a").write_bytes(b"x")
    upload(tree, context)
    (tree / "a").write_bytes(b"longer")
    upload(tree, context)
    assert len(list(context.vmetadata.keys())) == 2


def test_a_file_that_changes_after_planning_is_named(tree, context):
    (tree / "a").write_bytes(b"x")
    source = Source(str(tree))
    plan = make_plan(open_tree(source), 2)
    (tree / "a").write_bytes(b"longer")
    shared = Upload(FOLDER, 1, plan.digest, source, context)
    with pytest.raises(SourceChanged, match="'a' changed"):
        upload_part(plan.parts[0], shared)
    assert list(context.vmetadata.keys()) == []


def test_of_many_files_the_one_that_was_written_since_is_named(tree, context):
    for name in "abc":
        (tree / name).write_text(name)
    source = Source(str(tree))
    plan = make_plan(open_tree(source, context), 1)
    planned = (tree / "c").stat().st_mtime_ns + 1
    shared = Upload(FOLDER, 1, plan.digest, source, context, planned=planned)
    (tree / "b").write_text("other")
    os.utime(tree / "b", ns=(planned, planned))
    with pytest.raises(SourceChanged, match="'b' changed"):
        upload_part(plan.parts[0], shared)
    (tree / "b").unlink()
    with pytest.raises(SourceChanged, match="source' changed"):
        upload_part(plan.parts[0], shared)


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
    (tree / "big").write_bytes(random.Random(1).randbytes(MAX_WAITING_BYTES + (64 << 20)))
    slow = replace(context, blob=ChangedWhileRead(context.blob, tree / "big"))
    with pytest.raises(SourceChanged, match="'big' changed"):
        upload(tree, slow)
    assert list(context.vmetadata.keys()) == []


def test_the_bytes_of_a_root(tree, context):
    data = random.Random(3).randbytes(5 << 20)
    (tree / "f").write_bytes(data)
    upload(tree, context)
    [root] = context.blob.keys("roots/")
    lines = [f'- ["{blake3(chunk).hexdigest()}", {len(chunk)}]\n' for chunk in cut([data])]
    assert context.blob.get(root).decode() == f"version: 1\nsize: {5 << 20}\nchunks:\n" + "".join(lines)
    assert {key.rpartition("/")[2] for key in context.blob.keys("chunks/")} == {line[4:68] for line in lines}
    assert keys.root(root.rpartition("/")[2]) == root


def test_a_huge_file_is_stored_by_several_tasks(tree, context):
    with (tree / "huge").open("wb") as file:
        for number in range(3):
            file.seek(number * SLICE_BYTES)
            file.write(bytes([number + 1]))
        file.truncate(2 * SLICE_BYTES + 5)
    reports = upload(tree, context)
    assert [report.files for report in reports] == [0, 0, 0, 1]
    [entry] = lists(context)[0].entries()
    whole = blake3()
    whole.update_mmap(tree / "huge")
    assert entry.hash == whole.hexdigest()
    assert reading.read_root(entry, context.blob).size == 2 * SLICE_BYTES + 5
    again = upload(tree, context)
    assert sum(report.stored for report in again) == 0
    assert sum(report.stored for report in reports) < MAX_CHUNK, "empty chunks are stored once, and compressed"
    for key in list(context.vmetadata.keys()):
        if "bundle-files" in key:
            context.vmetadata.delete(key)
    assert [report.resumed for report in upload(tree, context)] == [False, False, False, False]
    assert [entry.hash for entry in lists(context)[0].entries()] == [whole.hexdigest()]


def test_a_huge_file_is_cut_as_a_smaller_one_would_be(tree, context):
    """So the slices that it is stored in leave no trace."""
    data = random.Random(4).randbytes(64 << 20)
    with (tree / "huge").open("wb") as file:
        for _ in range(2 * SLICE_BYTES // len(data)):
            file.write(data)
    upload(tree, context)
    [entry] = lists(context)[0].entries()
    chunks = [chunk.digest for chunk in reading.read_root(entry, context.blob).chunks]
    whole = [blake3(chunk).hexdigest() for chunk in cut([(tree / "huge").read_bytes()])]
    assert chunks == whole


def test_progress_is_reported_while_files_are_stored(tree, context):
    (tree / "a").write_bytes(b"small")
    (tree / "b").write_bytes(bytes(SMALL_BYTES))
    source = Source(str(tree))
    plan = make_plan(open_tree(source), 2)
    shared = Upload(FOLDER, 1, plan.digest, source, context)
    steps = []
    [report] = [upload_part(part, shared, lambda *step: steps.append(step)) for part in plan.parts]
    assert [sum(column) for column in zip(*steps, strict=True)] == [2, SMALL_BYTES + 5, report.stored]
    steps.clear()
    upload_part(plan.parts[0], shared, lambda *step: steps.append(step))
    assert steps == [(2, SMALL_BYTES + 5, 0)]


def base_of(context, reports):
    """A bundle of what was uploaded."""
    bundle = bundle_of([report.listed for report in reports])
    for reference in bundle.lists:
        body = context.vmetadata.get(keys.uploaded_list(FOLDER, reference.index))
        context.metadata.create(keys.file_list(reference.digest), body)
    return BaseBundle(bundle)


def test_what_the_base_bundle_holds_is_not_stored_again_even_if_renamed(tree, context):
    for number in range(50):
        (tree / f"f{number}").write_bytes(b"content %d" % number)
    base = base_of(context, upload(tree, context))
    (tree / "f7").rename(tree / "a-new-name")
    (tree / "f8").write_bytes(b"changed")
    source = Source(str(tree))
    plan = make_plan(open_tree(source), 2)
    shared = Upload(keys.split_folder(R, D, "s2"), 1, plan.digest, source, context, base)
    [report] = [upload_part(part, shared) for part in plan.parts]
    assert report.stored == len(b"changed")
    read = contents(context)
    assert (read["a-new-name"], read["f8"], read["f9"]) == (b"content 7", b"changed", b"content 9")


def test_what_the_base_bundle_holds_and_the_store_has_lost_is_stored_again(tree, context):
    (tree / "f").write_bytes(b"content")
    base = base_of(context, upload(tree, context))
    for pack in list(context.blob.keys("packs/")):
        context.blob.delete(pack)
    plan = make_plan(open_tree(Source(str(tree))), 2)
    shared = Upload(keys.split_folder(R, D, "s2"), 1, plan.digest, Source(str(tree)), context, base)
    assert [upload_part(part, shared).stored for part in plan.parts] == [len(b"content")]
    assert contents(context)["f"] == b"content"


def test_only_as_much_of_a_base_is_read_as_fits_but_always_the_same_names(tree, context):
    for number in range(10):
        (tree / f"f{number}").write_bytes(b"content %d" % number)
    base = base_of(context, upload(tree, context))
    same, other = blake3(b"content 3").hexdigest(), blake3(b"content 5").hexdigest()
    tight = BaseBundle(base.bundle, room=0).known_content(NameRange("f3", "f4"), context)
    assert (tight.get(same), tight.get(other)) == (None, None)
    tight = BaseBundle(base.bundle, room=1).known_content(NameRange("f3", "f4"), context)
    assert (tight.get(same) is not None, tight.get(other)) == (True, None)
    assert BaseBundle(base.bundle, room=0).known_content(NameRange("g"), context).get(same) is None
    assert base.known_content(NameRange("g"), context).get(same) == tight.get(same)
    assert base.known_content(NameRange("g"), context).get("0" * 64) is None


def test_neighbours_in_a_pack_are_read_together_and_packs_once():
    def entry(name, offset, size, pack="x"):
        return Entry(name, "", size, 420, 0, 0, Place(pack, offset))

    mixed = [entry(f"{n}{pack}", n * 100, 100, pack) for n in range(5) for pack in "xy"]
    assert [(span.pack, span.start, span.stop, len(span.entries)) for span in reading.spans(mixed)] == [
        ("x", 0, 500, 5),
        ("y", 0, 500, 5),
    ]
    far = [entry("a", 0, 10), entry("b", 10 + GAP_BYTES + 1, 10), entry("c", 5, 1)]
    assert [(span.start, len(span.entries)) for span in reading.spans(far)] == [(0, 2), (11 + GAP_BYTES, 1)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"version: 2\nsize: 0\nchunks:\n",
        pytest.param(b'version: 1\nsize: 9\nchunks:\n- ["%s", 4]\n' % (b"a" * 64), id="chunks do not add up"),
        pytest.param(b'version: 1\nsize: 0\nchunks:\n- ["%s", 0]\n' % (b"a" * 64), id="an empty chunk"),
        pytest.param(b"version: 1\nsize: 1\nchunks:\n", id="no chunks"),
    ],
)
def test_a_root_that_is_none_is_refused(body):
    with pytest.raises(CorruptObject, match="roots/x"):
        Root.read("roots/x", body)
