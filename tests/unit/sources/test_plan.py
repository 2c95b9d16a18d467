import os
import socket
from pathlib import Path

import pytest

from datamon.core.errors import SourceMissing, SourceUnreadable, UnfitFile
from datamon.sources.plan import make_plan as plan_of
from datamon.sources.source import Source
from datamon.sources.tree import open_tree


def make_plan(source, slots):
    return plan_of(open_tree(source), slots)


def names(path, **options):
    return [file.name for file in open_tree(Source(str(path), **options)).walk()]


@pytest.fixture
def tree(tmp_path):
    for name in ("b.txt", "a/1", "a/2/x", "a-b"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "source"


def test_a_folder_in_name_order_with_sizes_modes_and_times(tree):
    (tree / "b.txt").chmod(0o750)
    os.utime(tree / "b.txt", ns=(1, 123_456_789))
    files = list(open_tree(Source(str(tree))).walk())
    assert [file.name for file in files] == ["a/1", "a/2/x", "a-b", "b.txt"]
    assert (files[-1].size, files[-1].mode, files[-1].mtime) == (5, 0o750, 123_456_789)


def test_a_single_file_goes_by_its_own_name(tree):
    assert names(tree / "a" / "1") == ["1"]


def test_empty_folders_hold_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    plan = make_plan(Source(str(tmp_path)), 2)
    assert (plan.parts, plan.files, plan.bytes) == ([], 0, 0)


def test_what_is_not_there(tmp_path):
    with pytest.raises(SourceMissing, match="does not exist"):
        names(tmp_path / "nothing")


def test_folders_of_datamons_own_are_left_out_and_named_only_at_the_top(tree):
    for folder in (".datamon", ".conflicts", ".checkpoints", "a/.conflicts"):
        (tree / folder).mkdir()
        (tree / folder / "f").write_text("x")
    assert names(tree) == ["a/.conflicts/f", "a/1", "a/2/x", "a-b", "b.txt"]
    assert make_plan(Source(str(tree)), 2).reserved == [".checkpoints", ".conflicts", ".datamon"]


def test_a_link_to_a_file_inside_is_that_file(tree):
    (tree / "link").symlink_to("a/1")
    assert "link" in names(tree)


def make_socket(tree, monkeypatch):
    monkeypatch.chdir(tree)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("unfit")


def make_long(tree):
    folder = tree.joinpath(*["d" * 200] * 5)
    folder.mkdir(parents=True)
    (folder / ("unfit" * 9)).touch()


UNFIT = {
    "a link that leads out": (lambda tree, _: (tree / "unfit").symlink_to("/etc/hostname"), "leads out of the source"),
    "a link to a folder": (lambda tree, _: (tree / "unfit").symlink_to("a"), "link to a folder"),
    "a link to nowhere": (lambda tree, _: (tree / "unfit").symlink_to("gone"), "leads nowhere"),
    "a link to itself": (lambda tree, _: (tree / "unfit").symlink_to("unfit"), "leads nowhere"),
    "a FIFO": (lambda tree, _: os.mkfifo(tree / "unfit"), "not a regular file"),
    "a socket": (make_socket, "not a regular file"),
    "a name that is not UTF-8": (lambda tree, _: Path(os.fsdecode(bytes(tree) + b"/unfit\xff")).touch(), "not UTF-8"),
    "a name that is too long": (lambda tree, _: make_long(tree), "longer than 1024 bytes"),
}


@pytest.mark.parametrize(("make", "why"), UNFIT.values(), ids=UNFIT)
def test_what_a_bundle_cannot_hold_is_refused_by_name_or_skipped(tree, monkeypatch, make, why):
    make(tree, monkeypatch)
    with pytest.raises((UnfitFile, SourceUnreadable), match=why) as refusal:
        make_plan(Source(str(tree)), 2)
    assert "unfit" in str(refusal.value)
    plan = make_plan(Source(str(tree), skip_on_error=True), 2)
    assert (plan.files, plan.skipped) == (4, 1)


def test_a_device_is_no_source():
    with pytest.raises(UnfitFile, match="neither a folder nor a regular file"):
        names("/dev/null")


def test_the_digest_changes_with_the_source(tree):
    before = make_plan(Source(str(tree)), 2).digest
    assert make_plan(Source(str(tree)), 2).digest == before
    os.utime(tree / "b.txt", ns=(1, 1))
    assert make_plan(Source(str(tree)), 2).digest != before
