"""Bundles into folders, without Spark."""

import random

import pytest

from datamon import keys
from datamon.content import SMALL_BYTES, Upload, upload_part
from datamon.download import bundle_entries, download
from datamon.errors import CorruptFile, CorruptObject, DestinationInUse, Failed, NotFound
from datamon.filelist import FileList, ListWriter
from datamon.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.model import Bundle, ConflictMode, Entry, Order, Origin
from datamon.names import prefixed
from datamon.plan import Source, make_plan
from datamon.stores import open_context
from tests.conftest import tree

R, D, B = RepoName("r"), DiamondId("d"), BundleId("b")


@pytest.fixture
def context(tmp_path):
    return open_context(str(tmp_path / "store"))


def bundle_of(lists, files=0):
    origin = Origin(id=D, mode=ConflictMode.KEEP, order=Order.UPLOADED, splits=[], left_out=[])
    return Bundle(
        id=B,
        repo=R,
        message="",
        created="",
        contributors=[],
        parents=[],
        diamond=origin,
        files=files,
        bytes=0,
        conflicts=0,
        checkpoints=0,
        lists=lists,
    )


@pytest.fixture
def bundle(context, tmp_path):
    """A bundle with small, empty and large files, made of one split's lists."""
    rng = random.Random(3)
    files = {"a/small": b"small", "a/empty": b"", "large": rng.randbytes(SMALL_BYTES + 1), "z": b"last"}
    for name, data in files.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    source = Source(str(tmp_path / "source"))
    plan = make_plan(source, 2)
    infos = []
    for part in plan.parts:
        info = upload_part(part, Upload(R, D, SplitId("s"), 1, plan.digest, source, context)).info
        body = context.vmetadata.get(keys.split_files(R, D, SplitId("s"), info.index))
        context.metadata.create(keys.bundle_files(R, B, info.index), body)
        infos.append(info)
    return bundle_of(infos, len(files))


def test_a_whole_bundle(context, bundle, tmp_path):
    seen = []
    download(context, bundle, tmp_path / "out", lambda entry: seen.append(entry.name))
    for name in ("a/small", "a/empty", "large", "z"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "source" / name).read_bytes()
    assert sorted(seen) == ["a/empty", "a/small", "large", "z"]
    assert [path.name for path in (tmp_path / "out" / ".datamon").iterdir()] == ["b.yaml"]


def test_only_the_lists_that_matter_are_read(context, bundle):
    assert [entry.name for entry, _ in bundle_entries(context, bundle, prefixed("a/"))] == ["a/empty", "a/small"]
    for info in bundle.lists:
        context.metadata.delete(keys.bundle_files(R, B, info.index))
    assert list(bundle_entries(context, bundle, prefixed("zz"))) == []
    with pytest.raises(NotFound):
        list(bundle_entries(context, bundle))


def test_a_destination_that_is_not_empty_is_refused(context, bundle, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    with pytest.raises(DestinationInUse):
        download(context, bundle, tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine": "precious"}
    with pytest.raises(DestinationInUse):
        download(context, bundle, tmp_path / "out" / "mine")


def test_an_empty_destination_is_welcome(context, bundle, tmp_path):
    (tmp_path / "out").mkdir()
    download(context, bundle, tmp_path / "out")


def test_a_destination_that_cannot_be_written(context, bundle, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="cannot write to"):
        download(context, bundle, tmp_path / "file" / "out")


@pytest.mark.parametrize("kind", ["packs/", "chunks/", "roots/"])
def test_a_flipped_bit_is_found_named_and_leaves_no_bad_file(context, bundle, tmp_path, kind):
    [key] = list(context.blob.keys(kind))[:1]
    seen = context.blob.get_versioned(key)
    context.blob.replace(key, bytes([seen.body[0] ^ 1]) + seen.body[1:], seen.version)
    with pytest.raises(CorruptFile, match=key):
        download(context, bundle, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [], "half a bundle is no bundle"
    context.blob.replace(key, seen.body, context.blob.get_versioned(key).version)
    download(context, bundle, tmp_path / "out")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".datamon/x", "a//b", "a\0b"])
def test_no_list_can_make_a_file_appear_outside(context, tmp_path, name):
    writer = ListWriter()
    writer.add(Entry(name, "", 0, 420, 0, 0), [])
    body, info = writer.seal("00000-000")
    context.metadata.create(keys.bundle_files(R, B, info.index), body)
    with pytest.raises(CorruptObject, match="lists"):
        download(context, bundle_of([info], 1), tmp_path / "out")
    assert tree(tmp_path / "out") == {}
    assert not (tmp_path / "x").exists()


def test_a_list_that_is_not_the_one_of_the_descriptor_is_refused(context, bundle, tmp_path):
    key = keys.bundle_files(R, B, bundle.lists[0].index)
    seen = context.metadata.get_versioned(key)
    assert FileList(key, seen.body).entries()
    context.metadata.replace(key, seen.body.replace(b'"mode":', b'"mode":1'), seen.version)
    with pytest.raises(CorruptObject, match="digest"):
        download(context, bundle, tmp_path / "out")
