"""Trees come back as they were: links and empty folders, where that is asked for; and what is not read again."""

import ctypes
import os
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from tests.conftest import until


@pytest.fixture
def source(tmp_path):
    top = tmp_path / "source"
    (top / "data" / "deep").mkdir(parents=True)
    (top / "empty" / "below").mkdir(parents=True)
    (top / "closed").mkdir()
    (top / "data" / "f").write_text("content")
    (top / "link").symlink_to("data/f")
    (top / "data" / "deep" / "up").symlink_to("../f")
    (top / "folder").symlink_to("data")
    (top / "nowhere").symlink_to("data/gone")
    os.utime(top / "link", ns=(1, 2_000_000_000), follow_symlinks=False)
    (top / "empty" / "below").chmod(0o750)
    (top / "closed").chmod(0o555)
    os.utime(top / "closed", ns=(1, 3_000_000_000))
    yield top
    (top / "closed").chmod(0o755)


KEEP = ("--links", "keep", "--empty-folders")


def upload(stack, repo, source, *options):
    return stack.run("bundle", "upload", "--repo", repo, "--path", str(source), "--message", "m", *options)


def test_links_and_empty_folders_come_back(stack, repo, source, tmp_path):
    bundle = upload(stack, repo, source, *KEEP).stdout.strip()
    out = tmp_path / "out"
    stack("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(out))
    same = subprocess.run(
        ["diff", "-r", "--no-dereference", "-x", ".datamon", source, out], capture_output=True, text=True, check=False
    )
    assert (same.returncode, same.stdout) == (0, "")
    assert os.readlink(out / "data" / "deep" / "up") == "../f"
    assert (out / "link").lstat().st_mtime_ns == 2_000_000_000
    assert (out / "empty" / "below").stat().st_mode & 0o777 == 0o750
    closed = (out / "closed").stat()
    assert (closed.st_mode & 0o777, closed.st_mtime_ns) == (0o555, 3_000_000_000)
    again = stack.run("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(out), "--force")
    assert "already there" in again.stderr
    assert (out / "closed").stat().st_mode & 0o777 == 0o555


def test_they_are_listed_as_what_they_are(stack, repo, source):
    bundle = ("--repo", repo, "--bundle", upload(stack, repo, source, *KEEP).stdout.strip())
    listed = {one["name"]: (one["type"], one.get("link")) for one in stack.json("bundle", "list", "files", *bundle)}
    assert listed == {
        "closed/": ("folder", None),
        "data/deep/up": ("link", "../f"),
        "data/f": ("file", None),
        "empty/below/": ("folder", None),
        "folder": ("link", "data"),
        "link": ("link", "data/f"),
        "nowhere": ("link", "data/gone"),
    }
    table = stack("bundle", "list", "files", *bundle)
    assert "folder -> data " in table
    assert "empty/below/ " in table
    refused = stack.refused("bundle", "download", "file", *bundle, "--file", "link", exit_code=2)
    assert refused == "datamon: 'link' is a symbolic link to 'data/f', so it has no content of its own"


def test_by_default_links_are_followed_and_that_is_said(stack, repo, source):
    (source / "nowhere").unlink()
    (source / "folder").unlink()
    told = upload(stack, repo, source)
    assert "followed 2 symbolic links, and stored the files they lead to; --links keep keeps links" in told.stderr
    listed = stack.json("bundle", "list", "files", "--repo", repo, "--bundle", told.stdout.strip())
    assert {one["name"]: one["type"] for one in listed} == dict.fromkeys(("data/deep/up", "data/f", "link"), "file")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/etc/passwd", "it is a link to an absolute path"),
        ("../outside", "it is a link that leads out of the source"),
        ("data/../../outside", "it is a link whose target has `..` behind a name"),
    ],
)
def test_a_link_that_leads_out_is_not_kept(stack, repo, source, target, reason):
    (source / "bad").symlink_to(target)
    told = stack.run(
        "bundle", "upload", "--repo", repo, "--path", str(source), "--message", "m", *KEEP, exit_code=1
    ).stderr
    assert f"cannot upload 'bad': {reason}" in told
    told = upload(stack, repo, source, *KEEP, "--skip-on-error").stderr
    assert f"skipped 'bad': {reason}" in told


def test_a_file_takes_the_place_of_an_empty_folder_and_back(stack, repo, tmp_path):
    """Two splits disagree, and a folder that is no longer empty needs no entry of its own to be there."""
    for number in "12":
        (tmp_path / number).mkdir()
    (tmp_path / "1" / "x").mkdir()
    (tmp_path / "2" / "x").mkdir()
    (tmp_path / "2" / "x" / "f").write_text("in it")
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    for number in "12":
        stack("diamond", "add", *where, "--path", str(tmp_path / number), "--empty-folders")
    bundle = stack("diamond", "commit", *where, "--message", "m", "--no-conflicts")
    out = tmp_path / "out"
    stack("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(out))
    assert [str(path.relative_to(out)) for path in sorted(out.rglob("*")) if ".datamon" not in str(path)] == [
        "x",
        "x/f",
    ]

    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "x").write_text("a file")
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    for number in "13":
        stack("diamond", "add", *where, "--path", str(tmp_path / number), "--empty-folders")
    told = stack.run("diamond", "commit", *where, "--message", "m", "--no-conflicts", exit_code=5).stderr
    assert "x" in told


def test_a_later_download_takes_links_and_folders_away_again(stack, repo, source, tmp_path):
    out = tmp_path / "out"
    first = upload(stack, repo, source, *KEEP).stdout.strip()
    stack("bundle", "download", "--repo", repo, "--bundle", first, "--destination", str(out))
    (tmp_path / "next" / "folder").mkdir(parents=True)
    (tmp_path / "next" / "folder" / "f").write_text("where there was a link")
    second = upload(stack, repo, tmp_path / "next", *KEEP).stdout.strip()
    stack("bundle", "download", "--repo", repo, "--bundle", second, "--destination", str(out), "--delete")
    assert (out / "folder" / "f").read_text() == "where there was a link"
    assert not (out / "folder").is_symlink()
    assert sorted(path.name for path in out.iterdir()) == [".datamon", "folder"]


def test_a_folder_that_nobody_may_write_to_does_not_keep_a_later_bundle_out(stack, repo, tmp_path):
    """One split has an empty folder that is closed, the other one a file in it; later there are other files."""
    for name in ("1/closed", "2/closed", "3/closed"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "2" / "closed" / "old").write_text("old")
    (tmp_path / "3" / "closed" / "new").write_text("new")
    (tmp_path / "1" / "closed").chmod(0o555)
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    for number in "12":
        stack("diamond", "add", *where, "--path", str(tmp_path / number), "--empty-folders")
    first, out = stack("diamond", "commit", *where, "--message", "m"), tmp_path / "out"
    stack("bundle", "download", "--repo", repo, "--bundle", first, "--destination", str(out))
    assert (out / "closed").stat().st_mode & 0o777 == 0o555
    second = upload(stack, repo, tmp_path / "3").stdout.strip()
    stack("bundle", "download", "--repo", repo, "--bundle", second, "--destination", str(out), "--delete")
    assert [path.name for path in (out / "closed").iterdir()] == ["new"]
    third = tmp_path / "4"
    third.mkdir()
    (third / "closed").write_text("a file in the place of the folder")
    (third / "closed").chmod(0o640)
    (out / "closed").chmod(0o555)
    last = upload(stack, repo, third).stdout.strip()
    stack("bundle", "download", "--repo", repo, "--bundle", last, "--destination", str(out), "--delete")
    assert (out / "closed").stat().st_mode & 0o777 == 0o640
    (tmp_path / "1" / "closed").chmod(0o755)


@contextmanager
def opened_files(folder):
    """The names of the files in a folder that anybody opens while the block runs."""
    libc, is_opened, names = ctypes.CDLL(None), 0x20, set()
    watching = libc.inotify_init1(os.O_NONBLOCK)
    try:
        libc.inotify_add_watch(watching, os.fsencode(folder), is_opened)
        yield names
        with suppress(BlockingIOError):
            while events := os.read(watching, 65536):
                while events:
                    size = int.from_bytes(events[12:16], sys.byteorder)
                    names.add(events[16 : 16 + size].rstrip(b"\0").decode())
                    events = events[16 + size :]
    finally:
        os.close(watching)


def test_what_has_not_changed_is_not_read_again_unless_asked_for(stack, repo, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in "ab":
        (source / name).write_text(f"content of {name}")

    def read(*options):
        with opened_files(source) as names:
            told = upload(stack, repo, source, *options)
        return names - {""}, told

    assert read()[0] == {"a", "b"}
    until(lambda: read()[0] == set())  # what was written within two seconds is not trusted yet
    status = (source / "a").stat()
    (source / "a").write_text("CONTENT OF A")
    os.utime(source / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    names, told = read()
    assert names == {"a"}
    assert "2 files, 24 B, 12 B newly stored" in told.stderr
    assert read("--reread")[0] == {"a", "b"}
