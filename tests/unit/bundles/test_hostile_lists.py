"""What strangers can do to a download: with lists and descriptors of a bundle, and with links in the destination."""

import os
from contextlib import suppress
from dataclasses import replace

import pytest
from blake3 import blake3

from datamon.bundles.catalog import get_bundle
from datamon.bundles.download import download
from datamon.bundles.model import Repo
from datamon.bundles.reader import BundleReader
from datamon.content.entry import MAX_FRAME_BYTES, Entry, Place, link_hash
from datamon.content.roots import Chunk, Root
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, CorruptFile, CorruptObject, Failed, UnsafePath
from datamon.core.ids import BundleId
from datamon.stores import descriptors, keys
from tests.bundles import B, R, bundle_of, put_lists, reader_of
from tests.conftest import tree
from tests.lists import opened

EMPTY, SMALL = blake3(b"").hexdigest(), blake3(b"small").hexdigest()


def listed(context, entry):
    """A reader of a bundle of a list that anybody may have written, with right digests."""
    with suppress(AlreadyExists):
        context.blob.create(keys.pack(SMALL), b"small")
    return BundleReader(context, bundle_of(put_lists(context, [entry]), 1))


@pytest.fixture
def reader(context, bundle):
    return BundleReader(context, bundle)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".datamon/x", "a//b", "a\0b"])
def test_no_list_can_make_a_file_appear_outside(context, tmp_path, name):
    with pytest.raises(CorruptObject, match=r"its name (is not a plain|contains)|is reserved for datamon's own files"):
        download(listed(context, Entry(name, EMPTY, 0, 420, 0, 0)), tmp_path / "out")
    assert tree(tmp_path / "out") == {}
    assert not (tmp_path / "x").exists()


def link(name, target):
    return Entry(name, link_hash(target), 0, 0o777, 0, 0, link=target)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "a/../../outside", "", "a\0b", "x" * 5000])
def test_no_list_can_make_a_link_that_leads_outside(context, tmp_path, target):
    with pytest.raises(CorruptObject, match="'d/link'"):
        download(
            listed(context, link("d/link", f"../{target}" if target.startswith("..") else target)), tmp_path / "out"
        )
    assert not os.path.lexists(tmp_path / "out" / "d" / "link")


def test_a_link_that_another_link_leads_astray_is_refused(context, tmp_path):
    """Each of them is harmless by itself; what is in the destination already makes the second lead out."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "way").symlink_to(tmp_path)
    with pytest.raises(UnsafePath, match="a way out of the destination"):
        download(listed(context, link("there", "way")), out, force=True)
    assert not os.path.lexists(out / "there")


def test_nothing_is_written_through_a_link_of_the_same_bundle(context, tmp_path):
    """One list may say that a name is a link, and another one that there is a file below it."""
    lists = [*put_lists(context, [link("d", "real")]), *put_lists(context, [Entry("d/f", EMPTY, 0, 420, 0, 0)])]
    reader = BundleReader(context, bundle_of(lists, 2))
    with pytest.raises(UnsafePath, match="'d' in the destination is a symbolic link"):
        download(reader, tmp_path / "out")
    assert not (tmp_path / "out" / "real").exists()


def test_a_link_whose_hash_is_of_another_target_is_refused(context, tmp_path):
    entry = Entry("link", link_hash("here"), 0, 0o777, 0, 0, link="there")
    with pytest.raises(CorruptObject, match="'link'"):
        download(listed(context, entry), tmp_path / "out")


def test_an_empty_folder_cannot_have_bytes_or_be_a_link(context, tmp_path):
    for entry in (Entry("d/.", SMALL, 5, 420, 0, 0, Place(SMALL, 0)), link("d/.", "x")):
        with pytest.raises(CorruptObject, match="'d/"):
            download(listed(context, entry), tmp_path / "out")


def test_a_list_cannot_have_a_reader_hold_as_much_as_it_says(context, tmp_path):
    """A file in a pack is read at once, so it may have no more bytes than a frame."""
    entry = Entry("f", SMALL, MAX_FRAME_BYTES + 1, 420, 0, 0, Place(SMALL, 0))
    with pytest.raises(CorruptObject, match="it lies in a pack, and has more than"):
        download(listed(context, entry), tmp_path / "out")


def large(context, chunks, size):
    body = Root(chunks).yaml()
    digest = blake3(body).hexdigest()
    context.blob.create(keys.root(digest), body)
    return Entry("f", "0" * 64, size, 420, 0, 0, root=digest)


def test_of_a_root_or_a_chunk_no_more_is_read_than_it_may_have(context, tmp_path):
    many = large(context, [Chunk("0" * 64, 1)] * 100, 100)
    with pytest.raises(CorruptFile, match="has more than 4096 bytes"):
        download(listed(context, many), tmp_path / "out")
    context.blob.create(keys.chunk("1" * 64), b"x" * 1_000_000)
    one = large(context, [Chunk("1" * 64, 10)], 10)
    with pytest.raises(CorruptFile, match="has 1,034 bytes, and its root says 10"):
        download(listed(context, one), tmp_path / "out", force=True)


def test_names_that_look_alike_come_back_as_they_were(context, tmp_path):
    """Composed and decomposed letters, upper and lower case, full width, right to left, near misses of our own."""
    names = [
        "\u00e9",
        "e\u0301",
        "A",
        "a",
        "\uff41",
        "a\u202eb",
        "a\u200bb",
        ".Datamon/x",
        "\uff0e\uff0e\uff0fx",
        "..x",
        "x..",
        "%2e%2e",
        "a\\..\\b",
    ]
    for number, name in enumerate(names):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    download(reader_of(context, tmp_path / "source"), tmp_path / "out")
    assert tree(tmp_path / "out") == {name: str(number) for number, name in enumerate(names)}


@pytest.mark.parametrize(
    "entry",
    [
        Entry("f", SMALL, 5, -1, 0, 0, Place(SMALL, 0)),
        Entry("f", SMALL, 5, 420, 10**30, 0, Place(SMALL, 0)),
        Entry("f", SMALL, 5, 420, -(10**25), 0, Place(SMALL, 0)),
        Entry("f", SMALL, -1, 420, 0, 0, Place(SMALL, 0)),
        Entry("f", SMALL, 10**12, 420, 0, 0, Place(SMALL, 0)),
        Entry("f", SMALL, 5, 420, 0, 0, Place(SMALL, -1)),
        Entry("f", SMALL, 5, 420, 0, 0, Place(SMALL, 2**70)),
        Entry("f", "0" * 64, 0, 420, 0, 0),
    ],
    ids=lambda entry: f"{entry.size} {entry.mode} {entry.mtime} {entry.at and entry.at.offset}",
)
def test_numbers_that_cannot_be_are_refused(context, tmp_path, entry):
    with pytest.raises((CorruptObject, CorruptFile), match="'f'"):
        download(listed(context, entry), tmp_path / "out")
    assert tree(tmp_path / "out") == {}


def test_a_list_gives_nobody_the_rights_of_a_files_owner(context, tmp_path):
    download(listed(context, Entry("f", SMALL, 5, 0o6755, 0, 0, Place(SMALL, 0))), tmp_path / "out")
    assert (tmp_path / "out" / "f").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", ["lock", "done", "large"])
def test_a_link_among_our_own_files_is_not_followed(reader, tmp_path, name):
    """Whoever may write to the destination may have put it there."""
    victim, own = tmp_path / "victim", tmp_path / "out" / ".datamon" / "partial" / "b"
    victim.write_text("precious")
    victim.chmod(0o755)
    own.mkdir(parents=True)
    [large] = [entry for entry in reader.entries() if entry.name == "large"]
    growing = f"{large.hash}-{blake3(b'large').hexdigest()[:8]}"
    (own / (growing if name == "large" else name)).symlink_to(victim)
    with pytest.raises(Failed, match="symbolic links"):
        download(reader, tmp_path / "out")
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o755)


def test_a_list_that_is_not_the_one_of_the_descriptor_is_refused(context, reader, tmp_path):
    key = keys.file_list(reader.bundle.lists[0].digest)
    seen = context.metadata.get_versioned(key)
    assert list(opened(context.metadata, key).entries())
    context.metadata.replace(key, seen.body.replace(b'"mode":4', b'"mode":5'), seen.version)
    with pytest.raises(CorruptObject, match="digest"):
        download(reader, tmp_path / "out")


@pytest.mark.parametrize("link", ["a", ".datamon"])
def test_no_file_is_written_through_a_link(reader, tmp_path, link):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / link).symlink_to(elsewhere)
    with pytest.raises(UnsafePath, match=f"'{link}' in the destination is a symbolic link"):
        download(reader, out, force=True)
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(reader, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "target").write_text("untouched")
    (out / "z").symlink_to(tmp_path / "target")
    download(reader, out, force=True)
    assert (tmp_path / "target").read_text() == "untouched"
    assert (out / "z").read_bytes() == b"last"
    assert not (out / "z").is_symlink()


def test_an_entry_that_lies_nowhere_is_no_empty_file(context, tmp_path):
    with pytest.raises(CorruptObject, match="'f', but it does not say where its bytes are"):
        download(listed(context, Entry("f", "a" * 64, 5, 420, 0, 0)), tmp_path / "out")
    assert not (tmp_path / "out" / "f").exists()


@pytest.mark.parametrize("field", ["hash", "root"])
def test_a_hash_that_is_a_path_leads_nowhere(context, tmp_path, field):
    fields = {"hash": "a" * 64, "root": "b" * 64} | {field: "../../../../pwned"}
    reader = listed(context, Entry("f", fields["hash"], 5, 420, 0, 0, None, fields["root"]))
    with pytest.raises(CorruptObject, match="its hash is missing or is not one"):
        download(reader, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("pwned*"))


def test_a_descriptor_that_is_another_bundles_is_refused(context, bundle):
    repo = Repo(name=R, description="", contributor=Contributor("Ada"), created="c")
    context.metadata.create(keys.repo(R), descriptors.dump(repo))
    context.metadata.create(keys.bundle(R, B), descriptors.dump(replace(bundle, id=BundleId("../../victim"))))
    with pytest.raises(CorruptObject, match="it is about bundle"):
        get_bundle(context, R, B)
