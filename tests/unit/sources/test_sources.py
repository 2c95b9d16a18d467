"""What a source holds, wherever it is: a list of names, a filter, and S3."""

import os
from datetime import UTC, datetime

import pytest

from datamon.core.errors import BadUsage, SourceChanged, SourceMissing, SourceUnreadable, UnfitFile
from datamon.core.names import NameRange, sort_key
from datamon.sources.plan import make_plan
from datamon.sources.s3 import _checked
from datamon.sources.source import Source, check_allowed, sorted_names
from datamon.sources.tree import open_tree
from datamon.stores.context import open_store
from datamon.stores.s3 import S3Object

FILES = ["a/1", "a/2/x", "a-b", "b.txt", "b/1", "c/é", "part/1", "part/3", "part-1/0", "part-1/1", "part-2/x"]


@pytest.fixture(params=["local", "s3"])
def path(request, tmp_path):
    """The same files in a folder and in a bucket."""
    if request.param == "s3":
        url = f"{request.getfixturevalue('place')}/in/put"
        store = open_store(url)
        for name in FILES:
            store.create(name, name.encode())
        return url
    for name in FILES:
        file = tmp_path / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return str(tmp_path / "source")


def names(source, context=None, names=NameRange()):  # noqa: B008
    return [file.name for file in open_tree(source, context).walk(names)]


def listed(context, path, text, **options):
    context.vmetadata.create("names", sorted_names(text))
    return Source(path, files="names", **options)


def test_files_come_in_name_order_with_their_sizes_and_bytes(path):
    tree = open_tree(Source(path))
    files = list(tree.walk())
    assert [file.name for file in files] == sorted(FILES, key=sort_key)
    assert [file.size for file in files] == [len(file.name.encode()) for file in files]
    assert [tree.read(file, 0, file.size).decode() for file in files] == [file.name for file in files]
    assert tree.read(files[0], 1, 2) == b"/1"
    assert tree.read(files[0], 1, 0) == b""


def test_any_range_of_names_gives_just_those(path):
    keys = sorted(sort_key(name) for name in FILES)
    cuts = ["", *keys, *(key + end for key in keys[::4] for end in ("\0", "0")), None]
    for start in cuts[:-1]:
        for stop in cuts[1:]:
            held = NameRange(start, stop)
            wanted = [name for name in sorted(FILES, key=sort_key) if held.holds(sort_key(name))]
            assert names(Source(path), names=held) == wanted, held


def test_a_filter_is_searched_in_the_whole_name(path):
    assert names(Source(path, name_filter=r"^a/")) == ["a/1", "a/2/x"]
    assert names(Source(path, name_filter=r"\d$")) == ["a/1", "b/1", "part/1", "part/3", "part-1/0", "part-1/1"]
    assert names(Source(path, name_filter="nothing")) == []
    with pytest.raises(BadUsage, match="regular expression"):
        names(Source(path, name_filter="("))


def test_a_list_of_names(path, context):
    source = listed(context, path, b"b.txt\na/1\r\n\na/1\nc/\xc3\xa9\n")
    assert names(source, context) == ["a/1", "b.txt", "c/é"]
    assert names(source, context, NameRange(sort_key("b"))) == ["b.txt", "c/é"]
    assert names(Source(path, files="names", name_filter="1"), context) == ["a/1"]
    assert make_plan(open_tree(source, context), 2).files == 3


def test_a_listed_name_that_is_not_there_is_told_or_skipped(path, context):
    source = listed(context, path, b"a/1\nz")
    with pytest.raises(SourceMissing, match="/z' does not exist"):
        names(source, context)
    plan = make_plan(open_tree(Source(path, files="names", skip_on_error=True), context), 2)
    assert (plan.files, plan.skipped) == (1, 1)


@pytest.mark.parametrize("line", [b"../x", b"/etc/passwd", b"a//b", b"./a", b"\xff", b"x" * 1025])
def test_a_list_with_a_name_that_cannot_be_is_refused_by_its_line(line):
    with pytest.raises(BadUsage, match="line 2 of the list of files"):
        sorted_names(b"a\n" + line)


def test_a_single_file_goes_by_its_own_name(path):
    assert names(Source(f"{path}/a/2/x")) == ["x"]
    assert names(Source(f"{path}/a/2/x", name_filter="y")) == []


def test_what_is_not_there(path):
    with pytest.raises(SourceMissing, match="does not exist"):
        names(Source(f"{path}/nothing"))


@pytest.mark.parametrize("name", ["b.txt/x", "loop", "n" * 300])
def test_a_listed_name_that_cannot_be_looked_at_is_told_or_skipped(tmp_path, context, name):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "b.txt").write_text("a file")
    (tmp_path / "source" / "good").write_text("another")
    (tmp_path / "source" / "loop").symlink_to("loop")
    source = listed(context, str(tmp_path / "source"), f"good\n{name}".encode())
    with pytest.raises(SourceUnreadable, match="cannot read"):
        names(source, context)
    tolerant = Source(source.path, files="names", skip_on_error=True)
    assert make_plan(open_tree(tolerant, context), 2).skipped == 1


def test_a_list_for_a_single_file_is_refused(tmp_path, context):
    (tmp_path / "f").write_text("x")
    with pytest.raises(SourceUnreadable, match="not a directory"):
        names(listed(context, str(tmp_path / "f"), b"f"), context)


def test_a_folder_in_a_list_is_no_file(tmp_path, context):
    (tmp_path / "source" / "folder").mkdir(parents=True)
    with pytest.raises(UnfitFile, match="it is a folder"):
        names(listed(context, str(tmp_path / "source"), b"folder"), context)


def test_a_listed_link_out_of_the_source_is_refused(tmp_path, context):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "out").symlink_to("/etc")
    with pytest.raises(UnfitFile, match="leads out of the source"):
        names(listed(context, str(tmp_path / "source"), b"out/hostname"), context)


def test_names_of_datamons_own_are_left_out_of_s3_too(place, context):
    store = open_store(f"{place}/in")
    for name in (".conflicts/s/f", "a/.conflicts/f", "f"):
        store.create(name, b"")
    tree = open_tree(Source(f"{place}/in"))
    assert [file.name for file in tree.walk()] == ["a/.conflicts/f", "f"]
    assert tree.reserved() == [".conflicts"]
    assert names(listed(context, f"{place}/in", b".conflicts/s/f\nf"), context) == ["f"]


def test_an_object_that_changes_after_it_was_found_is_named(place):
    store = open_store(place)
    store.create("f", b"one")
    tree = open_tree(Source(place))
    [file] = tree.walk()
    store.replace("f", b"two", store.get_versioned("f").version)
    with pytest.raises(SourceChanged, match="'f' changed"):
        tree.read(file, 0, 3)
    store.delete("f")
    with pytest.raises(SourceChanged, match="'f' changed"):
        tree.read(file, 0, 3)


def test_a_flat_folder_of_more_than_a_page_is_cut_and_read_whole(place):
    from concurrent.futures import ThreadPoolExecutor

    store = open_store(f"{place}/flat")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.create(f"{number:04d}", b"x"), range(1100)))
    tree = open_tree(Source(f"{place}/flat"))
    assert len(list(tree.walk())) == 1100
    assert [file.name for file in tree.walk(NameRange("0555", "0558"))] == ["0555", "0556", "0557"]


def test_names_of_which_one_lies_below_the_other_cannot_be_listed():
    with pytest.raises(BadUsage, match="names both 'a' and 'a/b/c'"):
        sorted_names(b"a/b/c\na\na-1\n")


@pytest.mark.parametrize("swapped", ["the file", "the folder above"])
def test_a_link_that_is_put_in_the_place_of_a_file_is_not_followed(tmp_path, swapped):
    """By somebody who may write to the source, and wants what only the worker may read: same size, same time."""
    source, secret = tmp_path / "source", tmp_path / "secret"
    for folder, text in ((source / "sub", "harmless"), (secret, "secret!!")):
        folder.mkdir(parents=True)
        (folder / "f").write_text(text)
        os.utime(folder / "f", ns=(0, 0))
    tree = open_tree(Source(str(source)))
    [file] = tree.walk()
    assert tree.read(file, 0, file.size) == b"harmless"
    if swapped == "the file":
        (source / "sub" / "f").unlink()
        (source / "sub" / "f").symlink_to(secret / "f")
    else:
        (source / "sub").rename(tmp_path / "gone")
        (source / "sub").symlink_to(secret)
    with pytest.raises(UnfitFile, match="leads out of the source"):
        tree.read(file, 0, file.size)


@pytest.mark.parametrize(
    ("path", "folders", "may"),
    [
        ("{0}/data/x", "", True),
        ("{0}/data/x", "{0}/data", True),
        ("{0}/data", "/nowhere:{0}/data/", True),
        ("{0}/data/../secret", "{0}/data", False),
        ("{0}/database", "{0}/data", False),
        ("{0}/data/link", "{0}/data", False),
        ("/etc", "{0}/data", False),
        ("s3://bucket/in/x", "{0}/data", False),
        ("s3://bucket/in/x", "{0}/data:s3://bucket/in", True),
        ("s3://bucket/in", "s3://bucket/in/", True),
        ("s3://bucket/in/", "s3://bucket", True),
        ("s3://bucket/in/../x", "s3://bucket/in", False),
        ("s3://bucket/inner/x", "s3://bucket/in", False),
        ("{0}/data", "s3://bucket/in", False),
    ],
)
def test_a_worker_uploads_only_from_where_it_may(tmp_path, path, folders, may):
    (tmp_path / "data" / "x").mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to("/etc")
    source = Source(path.format(tmp_path))
    if may:
        assert check_allowed(source, folders.format(tmp_path)).files == source.files
    else:
        with pytest.raises(UnfitFile, match="the worker uploads only from"):
            check_allowed(source, folders.format(tmp_path))


def test_where_it_may_cannot_be_swapped_later(tmp_path):
    for folder in ("data/in", "secret"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f").write_text("same size")
        os.utime(tmp_path / folder / "f", ns=(0, 0))
    source = check_allowed(Source(str(tmp_path / "data" / "in")), str(tmp_path / "data"))
    [file] = open_tree(source).walk()
    (tmp_path / "data" / "in").rename(tmp_path / "gone")
    (tmp_path / "data" / "in").symlink_to(tmp_path / "secret")
    tree = open_tree(source)
    for use in (lambda: list(tree.walk()), lambda: tree.read(file, 0, file.size)):
        with pytest.raises(UnfitFile, match="a link was put in its place"):
            use()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    (tmp_path / "f").write_text("x")
    tree = open_tree(Source(str(tmp_path)))
    [file] = tree.walk()
    (tmp_path / "f").unlink()
    os.mkfifo(tmp_path / "f")
    with pytest.raises(SourceChanged, match="'f' changed"):
        tree.read(file, 0, file.size)


@pytest.mark.parametrize(("count", "fits"), [(255, True), (256, False)])
def test_an_object_with_a_name_that_no_folder_takes_is_unfit(count, fits):
    """S3 takes such names. The server of the tests does not, so what it would list is made here."""
    name, unfit = f"a/{'n' * count}", []
    listed = S3Object(name, 1, datetime(2026, 1, 1, tzinfo=UTC), "etag")
    names = [file.name for file in _checked(name, f"s3://b/{name}", listed, unfit.append)]
    assert (names, [error.name for error in unfit]) == (([name], []) if fits else ([], [name]))
