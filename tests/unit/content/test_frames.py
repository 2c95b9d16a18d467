"""Small files in frames: written, read back one by one, damaged."""

import random

import pytest

from datamon.bundles.download import download
from datamon.bundles.reader import BundleReader
from datamon.content.compression import OFF
from datamon.content.deduplication import KnownContent
from datamon.content.entry import FRAME_BYTES, MAX_FRAME_BYTES, FileInfo, Place
from datamon.content.reading import read_range
from datamon.content.writing import ContentWriter, ObjectWriter
from datamon.core.errors import CorruptFile, CorruptObject
from datamon.core.task_progress import ignore_progress
from datamon.stores import keys
from tests.bundles import bundle_of, put_lists
from tests.conftest import tree

NAMES = [f"f{number:03d}" for number in range(300)]


def text(name, size=10_000):
    """Something that compresses, and is another thing for every name."""
    words = random.Random(name).choices(["north", "south", "east", "west", name], k=size // 5)
    return " ".join(words).encode()[:size]


def store(context, files, level=3):
    """Store files; gives their entries."""
    with ObjectWriter(context.blob, ignore_progress, level) as objects:
        writer = ContentWriter(objects, KnownContent(), lambda: 7)
        for name, data in sorted(files.items()):
            writer.add_small(FileInfo(name, len(data), 0o644, 0), data)
        return writer.finish()


def content(entry, context):
    return b"".join(read_range(entry, context.blob))


def reader_of(context, entries):
    return BundleReader(context, bundle_of(put_lists(context, entries)))


@pytest.fixture
def files():
    return {name: text(name) for name in NAMES}


def test_files_of_a_frame_come_back_one_by_one_each_by_one_request(context, files):
    entries = store(context, files)
    frames = {(entry.at.start, entry.at.length) for entry in entries}
    assert len(frames) == -(-sum(map(len, files.values())) // FRAME_BYTES)
    assert all(length < FRAME_BYTES / 3 for _, length in frames)
    requests = []
    blob = context.blob

    class Counted:
        def get(self, *args):
            requests.append(args)
            return blob.get(*args)

    for entry in entries:
        assert b"".join(read_range(entry, Counted())) == files[entry.name]
    assert requests == [(keys.pack(entry.at.pack), entry.at.start, entry.at.length) for entry in entries]


def test_a_pack_has_frames_that_are_compressed_and_some_that_are_not(context, files):
    noise = {f"g{number}": random.Random(number).randbytes(FRAME_BYTES // 2) for number in range(4)}
    entries = store(context, files | noise)
    assert len(list(context.blob.keys("packs/"))) == 1
    assert {entry.at.length > 0 for entry in entries} == {True, False}
    assert {entry.name: content(entry, context) for entry in entries} == files | noise


def test_packs_that_were_made_with_and_without_compression_are_read_together(context, files, tmp_path):
    half = len(NAMES) // 2
    old = store(context, {name: files[name] for name in NAMES[:half]}, level=OFF)
    new = store(context, {name: files[name] for name in NAMES[half:]}, level=19)
    assert all(entry.at.length == 0 for entry in old)
    assert all(entry.at.length > 0 for entry in new)
    download(reader_of(context, [*old, *new]), tmp_path / "out")
    assert tree(tmp_path / "out") == {name: data.decode() for name, data in files.items()}


def damage(context, entry, change):
    """Change the bytes of the frame that an entry lies in."""
    key = keys.pack(entry.at.pack)
    seen = context.blob.get_versioned(key)
    start, stop = entry.at.start, entry.at.start + entry.at.length
    frame = change(bytearray(seen.body[start:stop]))
    context.blob.replace(key, seen.body[:start] + bytes(frame) + seen.body[stop:], seen.version)


def flip(at):
    def change(frame):
        frame[at] ^= 1
        return frame

    return change


@pytest.mark.parametrize("change", [flip(0), flip(-1), flip(200), lambda frame: bytes(len(frame))])
def test_a_damaged_frame_is_named_and_costs_only_the_files_in_it(context, files, tmp_path, change):
    entries = store(context, files)
    hit = entries[len(entries) // 2]
    damage(context, hit, change)
    lost = {entry.name for entry in entries if entry.at.start == hit.at.start}
    assert 1 < len(lost) < len(entries) / 2
    with pytest.raises(CorruptFile) as refused:
        download(reader_of(context, entries), tmp_path / "out")
    assert refused.value.key == keys.pack(hit.at.pack)
    came = tree(tmp_path / "out")
    assert set(files) - lost <= set(came), "not one more is missing"
    assert all(came[name] == files[name].decode() for name in came)


def test_a_pack_that_is_cut_short_costs_only_what_lay_behind(context, files, tmp_path):
    entries = store(context, files)
    last = max(entries, key=lambda entry: entry.at.start)
    key = keys.pack(last.at.pack)
    seen = context.blob.get_versioned(key)
    context.blob.replace(key, seen.body[:-10], seen.version)
    with pytest.raises(CorruptFile, match=f"its frame at {last.at.start} "):
        content(last, context)
    assert content(entries[0], context) == files[entries[0].name]


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(Place("1" * 64, 0, 0, MAX_FRAME_BYTES + 1), id="too long"),
        pytest.param(Place("1" * 64, 0, -1, 10), id="before the beginning"),
        pytest.param(Place("1" * 64, 2**70, 0, 10), id="far behind the end"),
    ],
)
def test_a_list_cannot_ask_for_a_frame_that_cannot_be(context, files, tmp_path, at):
    [entry] = store(context, {"f": b"x" * 1000})
    wrong = type(entry)(**{name: getattr(entry, name) for name in entry.__struct_fields__} | {"at": at})
    with pytest.raises(CorruptObject, match="'f'"):
        download(reader_of(context, [wrong]), tmp_path / "out")


def test_a_list_that_points_behind_the_end_of_a_frame_is_found_out(context, tmp_path):
    [entry] = store(context, {"f": b"x" * 1000})
    moved = type(entry)("f", entry.hash, 1000, 420, 0, 7, entry.at._replace(offset=1))
    with pytest.raises(CorruptFile, match="'f'"):
        download(reader_of(context, [moved]), tmp_path / "out")
