"""The cache of unchanged files: what it saves, and that it never believes what is not so."""

import os
import random
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blake3 import blake3

from datamon.content.entry import SMALL_BYTES
from datamon.sources.cache import RACY_SECONDS, Trust, trust_in
from datamon.sources.filters import IGNORE_FILE
from datamon.sources.plan import SLICE_BYTES, make_plan
from datamon.sources.source import Source
from datamon.sources.tree import open_tree
from datamon.sources.upload import Upload, find_chunks, upload_part, upload_slice
from datamon.stores import keys
from tests.bundles import D, R
from tests.lists import opened

LARGE = random.Random(1).randbytes(3 * SMALL_BYTES)
_opened: list[str] = []
sys.addaudithook(lambda event, args: _opened.append(str(args[0])) if event == "open" else None)


def later():
    """A moment at which nothing that was written until now is new any more."""
    return time.time_ns() + 10 * RACY_SECONDS * 10**9


class Host:
    """Uploads a folder again and again, as one host with one cache."""

    def __init__(self, context, source, cache):
        self.context, self.source, self.cache, self.uploads = context, source, cache, 0

    def upload(self, clock=later, cache=None, **options):
        """Upload the folder; gives the entries by name, and the names of the files that were read."""
        self.uploads += 1
        source = Source(str(self.source), **options)
        plan = make_plan(open_tree(source), 2)
        folder = keys.split_folder(R, D, f"s{self.uploads}-{os.urandom(4).hex()}")
        shared = Upload(folder, 1, plan.digest, source, self.context, cache=str(cache or self.cache))
        before = len(_opened)
        for file in plan.huge:
            for piece in find_chunks(file, shared):
                upload_slice(piece, shared)
        for part in plan.parts:
            upload_part(part, shared, clock=clock)
        read = {Path(path).name for path in _opened[before:] if Path(path).parent == self.source} - {IGNORE_FILE}
        lists = [key for key in self.context.vmetadata.keys(folder) if "bundle-files" in key]
        return {e.name: e for key in lists for e in opened(self.context.vmetadata, key).entries()}, read

    def hashes(self):
        return {path.name: blake3(path.read_bytes()).hexdigest() for path in self.source.iterdir()}


@pytest.fixture
def host(context, tmp_path):
    (tmp_path / "source").mkdir()
    for number in range(5):
        (tmp_path / "source" / f"f{number}").write_bytes(b"content %d" % number)
    (tmp_path / "source" / "large").write_bytes(LARGE)
    return Host(context, tmp_path / "source", tmp_path / "cache" / "s.sqlite")


EVERY = {"f0", "f1", "f2", "f3", "f4", "large"}


def right(host, entries):
    assert {name: entry.hash for name, entry in entries.items()} == host.hashes()


def test_what_has_not_changed_is_not_read_and_listed_as_before(host):
    first, read = host.upload()
    assert read == EVERY
    again, read = host.upload()
    assert read == set()
    assert {n: (e.hash, e.size, e.at, e.root) for n, e in again.items()} == {
        n: (e.hash, e.size, e.at, e.root) for n, e in first.items()
    }


def test_everything_is_read_if_that_is_asked_for(host):
    host.upload()
    assert host.upload(reread=True)[1] == EVERY


def overwrite(path):
    """Other bytes, as many as before, and the old mtime."""
    status = path.stat()
    path.write_bytes(b"CONTENT 1")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path):
    """Another file with the same size and mtime takes its place."""
    other = path.parent.parent / "other"
    other.write_bytes(b"CONTENT 1")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)


def through_a_hard_link(path):
    link = path.parent.parent / "link"
    link.hardlink_to(path)
    overwrite(link)


def reuse_the_inode(path):
    """Delete the file and make others until one has its inode, where the file system gives inodes away again."""
    status = path.stat()
    path.unlink()
    spare = []
    for number in range(200):
        path.write_bytes(b"CONTENT 1")
        if path.stat().st_ino == status.st_ino:
            break
        spare.append(path.rename(path.parent.parent / f"spare{number}"))
    else:
        path.write_bytes(b"CONTENT 1")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [overwrite, replace, through_a_hard_link, reuse_the_inode])
def test_a_changed_file_is_read_whatever_its_mtime_says(host, change):
    host.upload()
    change(host.source / "f1")
    assert (host.source / "f1").stat().st_size == len(b"content 1")
    entries, read = host.upload()
    assert read == {"f1"}
    right(host, entries)


def test_inodes_are_reused_on_tmpfs_too(context, tmp_path):
    shared = Path("/dev/shm")
    if not shared.is_dir():
        shared = tmp_path
    source = shared / f"datamon-{os.getpid()}" / "source"
    source.mkdir(parents=True)
    try:
        (source / "f1").write_bytes(b"content 1")
        host = Host(context, source, tmp_path / "s.sqlite")
        host.upload()
        reuse_the_inode(source / "f1")
        right(host, host.upload()[0])
    finally:
        for path in sorted(source.parent.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        source.parent.rmdir()


def test_a_file_that_was_just_written_is_not_trusted(host):
    """Written once more within the same tick of the clock, it would look the same."""
    host.upload(clock=time.time_ns)
    entries, read = host.upload()
    assert read == EVERY
    right(host, entries)
    assert host.upload()[1] == set(), "by now they are old enough"


def test_a_file_that_changes_while_it_is_uploaded_is_not_remembered(host):
    """It changes after it was read and before the task has ended."""
    times = iter(range(10**6))

    def clock():
        if next(times) == 1:
            overwrite(host.source / "f1")
        return later()

    host.upload(clock=clock)
    entries, read = host.upload()
    assert read == {"f1"}
    right(host, entries)


@pytest.mark.parametrize("kind", ["packs/", "chunks/", "roots/"])
def test_content_that_the_store_has_lost_is_stored_again(host, context, kind):
    host.upload()
    for key in sorted(context.blob.keys(kind))[:1]:
        context.blob.delete(key)
    entries, read = host.upload()
    assert read == ({"large"} if kind != "packs/" else EVERY - {"large"})
    right(host, entries)
    assert host.upload()[1] == set()
    for entry in entries.values():
        assert context.blob.exists(keys.pack(entry.at.pack) if entry.at else keys.root(entry.root))


def test_a_cache_of_another_store_is_another_file(host, tmp_path):
    host.upload()
    entries, read = host.upload(cache=tmp_path / "cache" / "another.sqlite")
    assert read == EVERY
    right(host, entries)


def garbage(path):
    path.write_bytes(b"this is no database" * 1000)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:5000])


def flip_bytes(path):
    body = bytearray(path.read_bytes())
    rng = random.Random(3)
    for _ in range(200):
        body[rng.randrange(4096, len(body))] ^= 0xFF
    path.write_bytes(body)


def other_rows(path):
    """Every row says what another one should."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT key, value FROM files").fetchall()
        keys_, values = [row[0] for row in rows], [row[1] for row in rows]
        database.executemany(
            "UPDATE files SET value = ? WHERE key = ?", zip(values[1:] + values[:1], keys_, strict=True)
        )
    database.close()


def other_table(path):
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE files")
        database.execute("CREATE TABLE files (a, b, c)")
    database.close()


def a_folder(path):
    path.unlink()
    path.mkdir()


HARMS = [garbage, cut_short, flip_bytes, other_rows, other_table, Path.unlink, a_folder, lambda path: path.chmod(0)]


def test_a_source_whose_path_is_no_text_is_cached_too(context, tmp_path):
    source = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    source.mkdir()
    (source / "f").write_bytes(b"content")
    host = Host(context, source, tmp_path / "cache" / "s.sqlite")
    assert host.upload()[1] == {"f"}
    assert host.upload()[1] == set()


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_a_damaged_cache_costs_time_and_nothing_else(host, harm):
    host.upload()
    harm(host.cache)
    for _ in range(2):
        entries, _ = host.upload()
        right(host, entries)


def test_a_cache_that_is_deleted_in_the_middle_costs_nothing(host):
    host.upload()
    times = iter(range(10**6))

    def clock():
        if next(times) == 1:
            for path in host.cache.parent.iterdir():
                path.unlink()
        return later()

    (host.source / "f1").write_bytes(b"new")
    entries, read = host.upload(clock=clock)
    assert read == {"f1"}
    right(host, entries)
    right(host, host.upload()[0])


def test_ten_uploads_share_a_cache(context, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(500):
        (source / f"f{number}").write_bytes(b"content %d" % number)
    hosts = [Host(context, source, tmp_path / "s.sqlite") for _ in range(10)]
    with ThreadPoolExecutor(10) as threads:
        for entries, _ in threads.map(lambda host: host.upload(), hosts):
            right(hosts[0], entries)
    assert hosts[0].upload()[1] == set()


def test_a_huge_file_that_has_not_changed_is_not_read_either(host):
    with (host.source / "huge").open("wb") as file:
        file.truncate(2 * SLICE_BYTES)
    _, read = host.upload()
    assert "huge" in read
    assert host.upload()[1] == set()


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 7:0 / /image ro,relatime - squashfs /dev/loop0 ro
31 22 0:40 / /remote rw - fuse.sshfs host:/ rw
32 22 8:2 / /snapshot ro,relatime - ext4 /dev/sdb ro
33 22 8:3 / /bound ro,relatime - ext4 /dev/sdc rw
34 22 8:4 / /with\\040space rw - vfat /dev/sdd rw
37 22 8:6 / /Données rw - vfat /dev/sdf rw
38 22 8:7 / /no\u00a0break rw - vfat /dev/sdg rw
39 22 0:50 / /image-below rw - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c
40 22 0:51 / /image-only rw - overlay overlay rw,lowerdir=/a:/b
36 22 0:41 / /nfs rw - nfs4 host:/ rw
35 31 8:5 / /remote/disk rw - xfs /dev/sde rw
""".encode().splitlines()


@pytest.mark.parametrize(
    ("path", "trust"),
    [
        ("/data/f", Trust.LOCAL),
        ("/image/f", Trust.NONE),
        ("/imagery/f", Trust.LOCAL),
        ("/remote/f", Trust.NONE),
        ("/remote/disk/f", Trust.LOCAL),
        ("/snapshot/f", Trust.NONE),
        ("/bound/f", Trust.LOCAL),
        ("/with space/f", Trust.NONE),
        ("/nfs/f", Trust.SHARED),
        ("/Données/f", Trust.NONE),
        ("/no\u00a0break/f", Trust.NONE),
        ("/image-below/f", Trust.LOCAL),
        ("/image-only/f", Trust.NONE),
        ("/\udcff/f", Trust.LOCAL),
    ],
)
def test_only_file_systems_whose_times_show_every_change_are_trusted(path, trust):
    assert trust_in(path, MOUNTS) is trust
    assert trust_in(path, []) is Trust.NONE
