"""The promises of ObjectStore, held against every store."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from datamon.core.errors import AlreadyExists, BadUsage, CorruptObject, NotFound, ObjectChanged, StoreUnreachable
from datamon.stores.context import open_context, open_store
from datamon.stores.directory import DirectoryStore

CLOCKS_DIFFER = 5  # seconds, at most: stores round, and have clocks of their own


@pytest.fixture(params=["directory", "s3"])
def store(request, tmp_path):
    if request.param == "directory":
        return open_store(str(tmp_path / "store"))
    return open_store(f"{request.getfixturevalue('place')}/some/prefix")


def test_what_is_created_is_there_at_once_and_whole(store):
    store.create("a/b", b"0123456789")
    assert store.exists("a/b")
    assert store.get("a/b") == b"0123456789"
    assert store.get("a/b", 2, 3) == b"234"
    assert store.get("a/b", 8, 9) == b"89"
    assert store.get("a/b", 8) == b"89"
    assert store.get("a/b", 0, 0) == b""
    store.create("a/empty", b"")
    assert store.get("a/empty") == b""


def test_what_is_not_there(store):
    assert not store.exists("a")
    assert list(store.keys("a/")) == []
    assert list(store.folders("a/")) == []
    for read in (store.get, store.get_versioned, lambda key: store.replace(key, b"", "v")):
        with pytest.raises(NotFound, match="no object 'a/b'"):
            read("a/b")
    store.delete("a/b")


def test_a_folder_is_not_an_object(store):
    store.create("a/b", b"")
    assert not store.exists("a")
    with pytest.raises(NotFound):
        store.get("a")


def test_an_object_is_created_once(store):
    store.create("k", b"first")
    with pytest.raises(AlreadyExists):
        store.create("k", b"second")
    assert store.get("k") == b"first"


def test_of_many_creators_one_wins(store):
    def attempt(number):
        try:
            store.create("k", b"%d" % number)
        except AlreadyExists:
            return None
        return b"%d" % number

    with ThreadPoolExecutor(16) as pool:
        winners = [won for won in pool.map(attempt, range(64)) if won is not None]
    assert winners == [store.get("k")]


def test_of_many_replacers_of_one_version_one_wins(store):
    store.create("k", b"old")
    version = store.get_versioned("k").version

    def attempt(number):
        try:
            store.replace("k", b"%d" % number, version)
        except ObjectChanged:
            return None
        return b"%d" % number

    with ThreadPoolExecutor(16) as pool:
        winners = [won for won in pool.map(attempt, range(64)) if won is not None]
    assert winners == [store.get("k")]


def test_replace_needs_the_version_that_was_read(store):
    store.create("k", b"1")
    first = store.get_versioned("k")
    store.replace("k", b"2", first.version)
    with pytest.raises(ObjectChanged):
        store.replace("k", b"3", first.version)
    assert store.get_versioned("k").body == b"2"


def test_keys_come_complete(store):
    keys = ["a-1/x", "a/b-c", "a/b/c", "a/é", "b/" + "x" * 200, *(f"n/{i}" for i in range(1100))]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.create(key, b""), keys))
    assert sorted(store.keys()) == sorted(keys)
    assert sorted(store.keys("a/")) == ["a/b-c", "a/b/c", "a/é"]
    assert sorted(store.keys("a/b")) == ["a/b-c", "a/b/c"]
    assert len(set(store.keys("n/"))) == len(list(store.keys("n/"))) == 1100


def test_folders_are_the_names_directly_below(store):
    for key in ("x/b/1", "x/a/1", "x/a/2", "x/file", "y/z"):
        store.create(key, b"")
    assert list(store.folders("x/")) == ["a", "b"]
    for name in ("weather", "weather-2024", "weather.old"):
        store.create(f"repos/{name}/repo.yaml", b"")
    assert list(store.folders("repos/")) == ["weather", "weather-2024", "weather.old"], "as text, not as keys"


def test_delete(store):
    store.create("a/b", b"")
    store.delete("a/b")
    assert not store.exists("a/b")
    store.create("a/b", b"again")


def test_what_is_known_of_an_object_without_its_bytes(store):
    before = time.time()
    store.create("a/b", b"12345")
    store.create("a/empty", b"")
    info = store.stat("a/b")
    assert (info.key, info.size) == ("a/b", 5)
    assert before - CLOCKS_DIFFER < info.modified < time.time() + CLOCKS_DIFFER
    assert store.stat("a/empty").size == 0
    store.replace("a/b", b"1234567", store.get_versioned("a/b").version)
    assert store.stat("a/b").size == 7
    store.delete("a/b")
    assert (store.stat("a/b"), store.stat("a"), store.stat("never")) == (None, None, None)


def test_a_listing_tells_size_and_age(store):
    before = time.time()
    sizes = {"a/b": 3, "a/c/d": 0, "a-1": 10, "b": 1}
    for key, size in sizes.items():
        store.create(key, bytes(size))
    listing = list(store.list())
    assert {info.key: info.size for info in listing} == sizes
    assert len(listing) == len(sizes)
    assert all(before - CLOCKS_DIFFER < info.modified < time.time() + CLOCKS_DIFFER for info in listing)
    assert sorted(listing, key=lambda info: info.key) == [store.stat(key) for key in sorted(sizes)]
    assert {info.key for info in store.list("a")} == {"a/b", "a/c/d", "a-1"}
    assert {info.key for info in store.list("a/")} == {"a/b", "a/c/d"}
    assert list(store.list("nothing")) == []


def test_many_objects_are_deleted_and_no_others(store):
    """More than S3 takes in one request, given as they come, and some of them are not there."""
    gone, kept = [f"n/{number}" for number in range(1100)], ["n-1", "n/x/1", "o/1", "n/é & <b>"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.create(key, b""), gone + kept))
    assert store.delete_many(key for key in [*gone, "n/missing", "nowhere/missing"]) == 1102
    assert sorted(store.keys()) == sorted(kept)
    assert store.delete_many([]) == 0
    assert store.delete_many(["n/é & <b>"]) == 1
    assert sorted(store.keys()) == sorted(set(kept) - {"n/é & <b>"})


def test_requests_are_signed_where_a_store_is_served_by_url(store):
    store.create("k", b"body")
    to_get, to_create = store.sign_get("k", 60), store.sign_create("new", 60, 4, hashlib.sha256(b"body").hexdigest())
    if isinstance(store, DirectoryStore):
        assert (to_get, to_create) == (None, None)
        return
    for signed in (to_get, to_create):
        assert signed.url.startswith("http")
        assert signed.url not in repr(signed), "it is a secret"
    assert not store.exists("new"), "signing does nothing"


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DirectoryStore(tmp_path / "file" / "store")
    with pytest.raises(StoreUnreachable, match="not a directory"):
        store.create("k", b"")


def test_a_directory_store_leaves_no_temporary_files(tmp_path):
    store = DirectoryStore(tmp_path)
    store.create("k", b"1")
    with pytest.raises(AlreadyExists):
        store.create("k", b"2")
    store.replace("k", b"2", store.get_versioned("k").version)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["k", "lock"]
    assert list(store.keys()) == ["k"]


def test_what_a_killed_writer_left_goes_after_a_day(tmp_path):
    private = tmp_path / ".datamon-store"
    private.mkdir()
    hours = {"0" * 32: 25, "1" * 32: 23, "lock": 25, "notes.txt": 25}
    for name, age in hours.items():
        (private / name).write_bytes(b"half of")
        os.utime(private / name, (time.time() - 3600 * age,) * 2)
    store = DirectoryStore(tmp_path)
    assert list(store.keys()) == []
    assert len(list(private.iterdir())) == 4, "who only reads removes nothing"
    store.create("k", b"1")
    assert sorted(path.name for path in private.iterdir()) == sorted(hours.keys() - {"0" * 32})


def list_below(store):
    return lambda key: list(store.keys(f"{key}/"))


def test_a_link_in_a_store_is_no_folder(tmp_path):
    """What is listed below a folder is deleted by housekeeping."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x")
    store = DirectoryStore(tmp_path / "store")
    store.create("a/b", b"")
    (tmp_path / "store" / "a" / "link").symlink_to(tmp_path / "out")
    assert list(store.keys("a/")) == ["a/b", "a/link"]
    assert list(store.folders("a/")) == []


@pytest.mark.parametrize("key", ["../x", "/etc/passwd", "a/../../x", "..", "a/..", "a\0b"])
def test_no_key_leads_out_of_a_directory(tmp_path, key):
    """Parts of keys come from descriptors, and whoever wrote those may mean harm."""
    (tmp_path / "x").write_text("not for you")
    store = DirectoryStore(tmp_path / "store")
    store.create("a/b", b"")
    reading = (store.get, store.stat, store.exists, list_below(store))
    writing = (store.delete, lambda key: store.delete_many([key]), lambda key: store.create(key, b""))
    for use in (*reading, *writing):
        with pytest.raises(CorruptObject, match="leads out of the store"):
            use(key)
    assert (tmp_path / "x").read_text() == "not for you"


def test_stores_by_url(tmp_path):
    context = open_context(str(tmp_path))
    assert [store.url for store in (context.blob, context.metadata, context.vmetadata)] == [
        str(tmp_path / name) for name in ("blob", "metadata", "vmetadata")
    ]
    with pytest.raises(BadUsage, match="gs://bucket"):
        open_store("gs://bucket")
