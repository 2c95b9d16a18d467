"""Bundles into folders, without Spark."""

import io
import os
import pickle
import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from blake3 import blake3

from datamon.bundles.download import cat, download
from datamon.bundles.model import Repo
from datamon.bundles.reader import BundleReader, Selection
from datamon.content.chunking import cut
from datamon.content.entry import SMALL_BYTES
from datamon.content.reading import read_root
from datamon.core.contributors import Contributor
from datamon.core.errors import CorruptFile, DestinationInUse, Failed, NotFound, StoreUnreachable
from datamon.core.names import with_prefix
from datamon.starter.advice import sentence
from datamon.stores import descriptors, keys
from tests.bundles import B, R, reader_of
from tests.conftest import as_an_ordinary_user, tree


@pytest.fixture
def reader(context, bundle):
    return BundleReader(context, bundle)


def with_blob(reader, blob):
    """The same bundle, with its content in another store."""
    return replace(reader, context=replace(reader.context, blob=blob))


def test_a_whole_bundle(reader, tmp_path):
    steps = []
    download(reader, tmp_path / "out", progress=lambda files, size: steps.append((files, size)))
    for name in ("a/small", "a/empty", "large", "z"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "source" / name).read_bytes()
    assert [sum(column) for column in zip(*steps, strict=True)] == [4, 5 + SMALL_BYTES + 1 + 4]
    assert [path.name for path in (tmp_path / "out" / ".datamon").iterdir()] == ["b.yaml"]


def test_only_the_lists_that_matter_are_read(context, reader):
    assert [entry.name for entry in reader.entries(with_prefix("a/"))] == ["a/empty", "a/small"]
    for reference in reader.bundle.lists:
        context.metadata.delete(keys.file_list(reference.digest))
    assert list(reader.entries(with_prefix("zz"))) == []
    with pytest.raises(NotFound):
        list(reader.entries())


def test_a_destination_that_is_not_empty_is_refused(reader, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    with pytest.raises(DestinationInUse):
        download(reader, tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine": "precious"}
    with pytest.raises(DestinationInUse):
        download(reader, tmp_path / "out" / "mine")


def test_an_empty_destination_is_welcome(reader, tmp_path):
    (tmp_path / "out").mkdir()
    download(reader, tmp_path / "out")
    assert (tmp_path / "out" / "z").read_bytes() == b"last"
    assert (tmp_path / "out" / "large").read_bytes() == (tmp_path / "source" / "large").read_bytes()


def test_a_destination_that_cannot_be_written(reader, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Failed, match="cannot write to"):
        download(reader, tmp_path / "file" / "out")


@pytest.mark.parametrize("kind", ["packs/", "chunks/", "roots/"])
def test_a_flipped_bit_is_found_named_and_leaves_no_bad_file(context, reader, tmp_path, kind):
    [key] = list(context.blob.keys(kind))[:1]
    seen = context.blob.get_versioned(key)
    context.blob.replace(key, bytes([seen.body[0] ^ 1]) + seen.body[1:], seen.version)
    with pytest.raises(CorruptFile, match=key):
        download(reader, tmp_path / "out")
    bad = "a/small" if kind == "packs/" else "large"
    came = {name for name in ("a/small", "a/empty", "large", "z") if (tmp_path / "out" / name).exists()}
    assert came == {"a/small", "a/empty", "large", "z"} - {bad}
    context.blob.replace(key, seen.body, context.blob.get_versioned(key).version)
    download(reader, tmp_path / "out")


def test_an_interrupted_download_goes_on_where_it_was(context, reader, tmp_path):
    out = tmp_path / "out"
    chunk = sorted(context.blob.keys("chunks/"))[0]
    seen = context.blob.get_versioned(chunk)
    context.blob.delete(chunk)
    with pytest.raises(CorruptFile, match=r"'large' in chunks/.* is not there"):
        download(reader, out)
    assert not (out / "large").exists()
    (out / "z").write_bytes(b"lost")  # as a crash may leave it: the right size, and not the right bytes
    context.blob.create(chunk, seen.body)
    fetched = download(reader, out)
    assert (fetched.files, fetched.kept) == (4, 2), "two are right, one was lost, one is new"
    assert (out / "z").read_bytes() == b"last"
    assert (out / "large").read_bytes() == (tmp_path / "source" / "large").read_bytes()
    assert sorted(path.name for path in (out / ".datamon").iterdir()) == ["b.yaml"]


class OneChunkOnly:
    """A blob store that breaks after the first chunk."""

    def __init__(self, store):
        self._store, self.read = store, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, key, start=0, length=None):
        if key.startswith("chunks/"):
            self.read.append(key)
            if len(self.read) > 1:
                raise StoreUnreachable("s3://far", "gone")
        return self._store.get(key, start, length)


def test_chunks_of_a_large_file_are_not_fetched_again(context, tmp_path):
    data = random.Random(5).randbytes(6 << 20)
    first, second, *_ = (len(chunk) for chunk in cut([data]))
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(data)
    large = reader_of(context, tmp_path / "source")
    with pytest.raises(StoreUnreachable):
        download(with_blob(large, OneChunkOnly(context.blob)), tmp_path / "out")
    [partial] = (tmp_path / "out" / ".datamon" / "partial" / "b").glob("*-*")
    assert partial.stat().st_size == first
    with partial.open("ab") as file:
        file.write(b"half a chunk")
    with pytest.raises(StoreUnreachable):
        download(with_blob(large, OneChunkOnly(context.blob)), tmp_path / "out")
    assert partial.stat().st_size == first + second
    download(large, tmp_path / "out")
    assert (tmp_path / "out" / "large").read_bytes() == data


def test_a_large_file_that_only_lacks_its_name_is_not_made_longer(context, tmp_path):
    """As it is when a download is killed right before the last step: the last chunk is shorter than the others."""
    data = random.Random(5).randbytes((5 << 20) + 7)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(data)
    large = reader_of(context, tmp_path / "source")
    in_the_way = tmp_path / "out" / "large"
    in_the_way.mkdir(parents=True)
    with pytest.raises(Failed, match="is a directory"):
        download(large, tmp_path / "out", force=True)
    [partial] = (tmp_path / "out" / ".datamon" / "partial" / "b").glob("*-*")
    assert partial.read_bytes() == data
    in_the_way.rmdir()
    steps = []
    download(large, tmp_path / "out", progress=lambda _, count: steps.append(count))
    assert in_the_way.read_bytes() == data
    assert sum(steps) == len(data)


def test_a_large_file_that_nobody_may_write_to_any_more_is_fetched_anew(reader, tmp_path):
    """It has got its mode, and was killed before it got its name."""
    own = tmp_path / "out" / ".datamon" / "partial" / "b"
    own.mkdir(parents=True)
    [large] = [entry for entry in reader.entries() if entry.name == "large"]
    growing = own / f"{large.hash}-{blake3(b'large').hexdigest()[:8]}"
    growing.write_bytes(b"half")
    growing.chmod(0o400)
    code = "import pickle, sys; from datamon.bundles.download import download; download(*pickle.load(sys.stdin.buffer))"
    arguments = pickle.dumps((reader, tmp_path / "out"))
    subprocess.run([sys.executable, "-c", code], input=arguments, check=True, preexec_fn=as_an_ordinary_user)
    assert (tmp_path / "out" / "large").read_bytes() == (tmp_path / "source" / "large").read_bytes()


@pytest.mark.parametrize("year", [1601, 2200])
def test_times_far_away_come_back(context, tmp_path, year):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("1")
    seconds = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    os.utime(tmp_path / "source" / "f", (seconds, seconds))
    there = (tmp_path / "source" / "f").stat().st_mtime_ns
    download(reader_of(context, tmp_path / "source"), tmp_path / "out")
    assert (tmp_path / "out" / "f").stat().st_mtime_ns == there


def test_the_record_of_a_download_is_for_all_to_read(reader, tmp_path):
    before = os.umask(0o022)
    download(reader, tmp_path / "out")
    os.umask(before)
    assert (tmp_path / "out" / ".datamon" / "b.yaml").stat().st_mode & 0o777 == 0o644


def test_force_takes_the_places_of_files_and_leaves_others(reader, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "z").write_text("mine")
    (out / "other").write_text("precious")
    with pytest.raises(DestinationInUse) as refusal:
        download(reader, out)
    assert "--force" in sentence(refusal.value)
    assert {path.name for path in out.iterdir()} == {"z", "other"}
    download(reader, out, force=True)
    assert ((out / "z").read_text(), (out / "other").read_text()) == ("last", "precious")


def test_a_download_of_another_bundle_half_done_is_somebody_elses(reader, tmp_path):
    (tmp_path / "out" / ".datamon" / "partial" / "another").mkdir(parents=True)
    with pytest.raises(DestinationInUse):
        download(reader, tmp_path / "out")


def test_some_files_of_a_bundle(reader, tmp_path):
    selection = Selection(accepts=re.compile("^a/").search)
    assert download(reader, tmp_path / "out", selection).files == 2
    assert tree(tmp_path / "out") == {"a/small": "small", "a/empty": ""}


@pytest.mark.parametrize("name", ["a/small", "a/empty", "large"])
def test_one_file_to_a_stream(reader, tmp_path, name):
    out = io.BytesIO()
    assert cat(reader, name, out).name == name
    assert out.getvalue() == (tmp_path / "source" / name).read_bytes()
    with pytest.raises(NotFound, match="no file 'b'"):
        cat(reader, "b", out)


def first_chunk(reader):
    return read_root(reader.find("large"), reader.context.blob).chunks[0].digest


@pytest.mark.parametrize(("kind", "name"), [("packs/", "a/small"), ("chunks/", "large"), ("roots/", "large")])
def test_not_a_wrong_byte_reaches_a_stream(context, reader, kind, name):
    key = keys.chunk(first_chunk(reader)) if kind == "chunks/" else next(context.blob.keys(kind))
    seen = context.blob.get_versioned(key)
    at = len(b"small") if kind == "packs/" else 0
    context.blob.replace(key, seen.body[:at] + bytes([seen.body[at] ^ 1]) + seen.body[at + 1 :], seen.version)
    out = io.BytesIO()
    if kind == "packs/":  # the flipped bit is the other file's
        cat(reader, name, out)
        name = "z"
        out = io.BytesIO()
    with pytest.raises(CorruptFile, match=key):
        cat(reader, name, out)
    assert out.getvalue() == b""


def test_modes_and_times_come_back(context, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("x")
    (tmp_path / "source" / "f").chmod(0o640)
    os.utime(tmp_path / "source" / "f", ns=(1, 1_234_567_890_123_456_789))
    download(reader_of(context, tmp_path / "source"), tmp_path / "out")
    about = (tmp_path / "out" / "f").stat()
    assert (about.st_mode & 0o777, about.st_mtime_ns) == (0o640, 1_234_567_890_123_456_789)


def test_a_disk_that_is_full_in_the_middle_of_a_large_file_is_no_success(context, bundle, tmp_path):
    script = (
        "import resource, signal, sys; from pathlib import Path; from datamon.bundles.catalog import get_bundle; "
        "from datamon.bundles.download import download; from datamon.bundles.reader import BundleReader; "
        "from datamon.stores.context import open_context; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); "
        "context = open_context(sys.argv[1]); "
        "download(BundleReader(context, get_bundle(context, 'r', 'b')), Path(sys.argv[2]))"
    )
    repo = Repo(name=R, description="", contributor=Contributor("Ada"), created="c")
    context.metadata.create(keys.repo(R), descriptors.dump(repo))
    context.metadata.create(keys.bundle(R, B), descriptors.dump(bundle))
    command = [sys.executable, "-c", script, str(tmp_path / "store"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "cannot write to" in done.stderr
    assert not (tmp_path / "out" / "large").exists()
    assert not (tmp_path / "out" / ".datamon" / "b.yaml").exists()


def test_two_downloads_into_one_folder_do_not_mix(reader, tmp_path):
    out = tmp_path / "out"
    refused = []

    def meanwhile(files, size):
        if not refused:
            with pytest.raises(DestinationInUse, match="by another process") as refusal:
                download(reader, out)
            refused.append(refusal)

    download(reader, out, progress=meanwhile)
    assert refused
    assert (out / "z").read_bytes() == b"last"


class Slow:
    """A blob store that takes its time, so that there is something to interrupt."""

    def __init__(self, store):
        self._store, self.reads = store, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def get(self, key, start=0, length=None):
        if key.startswith("chunks/"):
            self.reads += 1
            time.sleep(0.1)
        return self._store.get(key, start, length)


def test_an_interrupt_does_not_wait_for_large_files_to_end(context, tmp_path):
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "large").open("wb") as file:
        file.truncate(400 << 20)
    large, slow = reader_of(context, tmp_path / "source"), Slow(context.blob)

    def interrupt(files, size):
        if slow.reads > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(with_blob(large, slow), tmp_path / "out", progress=interrupt)
    assert slow.reads < 20
