"""Filters, globs, .datamonignore, and what is left out: said, and never by mistake nothing."""

import json
import os

import pytest

from tests.conftest import tree


@pytest.fixture
def where(stack, repo):
    return ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))


@pytest.fixture
def source(files):
    return files("source", {"a.csv": "1", "b.tmp": "2", "sub/c.csv": "3", "sub/cache/d.csv": "4"})


def names(stack, where, split):
    listed = stack.json("diamond", "split", "list", "files", *where, "--split", split)
    return [one["name"] for one in listed]


def test_a_filter_that_lets_nothing_through_fails_the_split(stack, where, source):
    adding = ("diamond", "add", *where, "--path", source, "--name-filter", "parqet$")
    done = stack.run(*adding, exit_code=1)
    assert done.stderr.endswith(
        f"failed: no file in '{source}' passes the name filter 'parqet$' (4 names left out); "
        "if that is intended, add --allow-empty\n"
    )
    [split] = stack.json("diamond", "split", "list", *where)
    assert split["state"] == "failed"
    split = stack(*adding, "--allow-empty")
    assert names(stack, where, split) == []


def test_a_bundle_of_nothing_is_not_made_and_no_label_moves(stack, repo, files, source):
    upload = ("bundle", "upload", "--repo", repo, "--label", "latest", "--message", "m")
    first = stack(*upload, "--path", source)
    typo = stack.run(*upload, "--path", source, "--include", "*.parqet", exit_code=1)
    assert "passes the globs '*.parqet' (4 names left out)" in typo.stderr
    empty = stack.run(*upload, "--path", files("empty", {}), exit_code=1)
    assert "/empty' holds no files; if that is intended, add --allow-empty" in empty.stderr
    assert stack.json("label", "get", "--repo", repo, "--label", "latest")["bundle"] == first
    assert len(stack.json("bundle", "list", "--repo", repo)) == 1
    meant = stack(*upload, "--path", files("empty", {}), "--allow-empty")
    assert stack.json("bundle", "get", "--repo", repo, "--bundle", meant)["files"] == 0


def test_a_folder_that_is_empty_makes_an_empty_split_and_says_so(stack, where, files):
    done = stack.run("diamond", "add", *where, "--path", files("empty", {}))
    assert "holds no files, so the split is empty" in done.stderr


def test_globs_include_and_exclude(stack, where, source):
    def added(*options):
        return names(stack, where, stack("diamond", "add", *where, "--path", source, *options))

    assert added("--include", "*.csv") == ["a.csv", "sub/c.csv", "sub/cache/d.csv"]
    assert added("--include", "/*.csv", "--include", "b.*") == ["a.csv", "b.tmp"]
    assert added("--exclude", "cache/", "--exclude", "*.tmp") == ["a.csv", "sub/c.csv"]
    assert added("--include", "*.csv", "--exclude", "sub") == ["a.csv"]
    assert added("--exclude", "*.csv", "--exclude", "!/a.csv") == ["a.csv", "b.tmp"]


def test_the_source_itself_says_what_not_to_upload(stack, where, source, files):
    files("source", {".datamonignore": "# not wanted\n*.tmp\ncache/\n"})
    split = stack("diamond", "add", *where, "--path", source)
    assert names(stack, where, split) == [".datamonignore", "a.csv", "sub/c.csv"]
    taken_back = stack("diamond", "add", *where, "--path", source, "--exclude", "!b.tmp")
    assert "b.tmp" in names(stack, where, taken_back)


def test_a_prefix_of_s3_has_such_a_file_too(stack, repo, place, s3, tmp_path):
    from tests.conftest import Command

    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    client = s3.client()
    for name, text in {"a.csv": "1", "b.tmp": "2", "cache/c.csv": "3", ".datamonignore": "*.tmp\ncache/\n"}.items():
        client.put_object(Bucket=bucket, Key=f"{prefix}/source/{name}".lstrip("/"), Body=text.encode())
    command = Command(tmp_path / "home", {"DATAMON_STORE": f"{place}/store"} | s3.environment)
    command("up", "--detach")
    try:
        command("repo", "create", "--repo", "r")
        url = f"{place}/source"
        bundle = command("bundle", "upload", "--repo", "r", "--path", url, "--message", "m")
        command("bundle", "download", "--repo", "r", "--bundle", bundle, "--destination", str(tmp_path / "out"))
    finally:
        command("down")
    assert sorted(tree(tmp_path / "out")) == [".datamonignore", "a.csv"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--name-filter", "*.csv"),
            "nothing to repeat at position 0; --name-filter takes a regular expression; for globs there is --include",
        ),
        (("--include", "\\"), "cannot be used"),
        (("--name-filter", "("), "is not a regular expression: missing )"),
    ],
    ids=["a glob for a regular expression", "no glob", "no regular expression"],
)
def test_a_filter_that_makes_no_sense_is_refused_at_once(stack, where, source, options, sentence):
    assert sentence in stack.refused("diamond", "add", *where, "--path", source, *options, exit_code=2)
    assert stack.json("diamond", "split", "list", *where) == []


def test_what_is_skipped_has_a_name_wherever_one_looks(stack, repo, where, source, tmp_path):
    os.mkfifo(f"{source}/pipe")
    os.symlink("/etc", f"{source}/sub/away")
    unreadable = tmp_path / "source" / "sub" / "secret"
    unreadable.write_text("s")
    unreadable.chmod(0)
    done = stack.run("diamond", "add", *where, "--path", source, "--skip-on-error")
    split = done.stdout.strip()
    assert sorted(line for line in done.stderr.splitlines() if line.startswith("skipped")) == [
        "skipped 'pipe': it is not a regular file",
        "skipped 'sub/away': it is a link that leads out of the source",
        "skipped 'sub/secret': permission denied",
    ]
    expected = [
        {"name": "pipe", "reason": "it is not a regular file"},
        {"name": "sub/away", "reason": "it is a link that leads out of the source"},
        {"name": "sub/secret", "reason": "permission denied"},
    ]
    described = stack.json("diamond", "split", "get", *where, "--split", split)
    assert sorted(described["skipped_sample"], key=lambda one: one["name"]) == expected
    assert described["skipped"] == 3
    listed = stack.json("diamond", "split", "list", "skipped", *where)
    assert sorted(listed, key=lambda one: one["name"]) == [{"split": split, **one} for one in expected]
    page = tmp_path / "report.html"
    stack("diamond", "report", *where, "--output", str(page))
    assert "sub/secret" in page.read_text()


def test_many_skipped_things_are_counted_and_the_first_named(stack, where, files):
    source = files("many", {"a": "1"})
    for number in range(40):
        os.mkfifo(f"{source}/pipe-{number:02}")
    done = stack.run("diamond", "add", *where, "--path", source, "--skip-on-error")
    lines = [line for line in done.stderr.splitlines() if line.startswith("skipped")]
    assert len(lines) == 6
    assert lines[-1] == "skipped 35 more things; `datamon diamond split list skipped` shows them all"
    assert len(stack.json("diamond", "split", "list", "skipped", *where)) == 40
    assert json.loads(stack("diamond", "split", "list", *where, "--format", "json"))[0]["skipped"] == 40


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink("a.csv", path)], ids=["folder", "pipe", "link"]
)
def test_rules_that_are_no_file_are_refused(stack, where, source, make):
    make(f"{source}/.datamonignore")
    done = stack.run("diamond", "add", *where, "--path", source, exit_code=1)
    assert "cannot upload '.datamonignore': it is" in done.stderr


def test_a_name_that_is_no_text_is_skipped_and_shown_as_it_can_be(stack, where, source):
    os.symlink("nowhere", os.fsencode(source) + b"/\xff")
    stack("diamond", "add", *where, "--path", source, "--skip-on-error")
    [one] = stack.json("diamond", "split", "list", "skipped", *where)
    assert (one["name"], one["reason"]) == ("\\xff", "the link leads nowhere")
