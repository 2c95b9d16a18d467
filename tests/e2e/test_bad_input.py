"""Wrong input, from the command line: one clear sentence, the right exit code, and nothing half-written."""

import os
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from tests.conftest import Command


@pytest.fixture
def diamond(stack, repo):
    return stack("diamond", "initialize", "--repo", repo)


@pytest.fixture
def where(repo, diamond):
    return ("--repo", repo, "--diamond", diamond)


@pytest.fixture
def source(files):
    return files("source", {"a": "1"})


UNKNOWN_REPO = [
    ("diamond", "initialize"),
    ("diamond", "list"),
    ("diamond", "get", "--diamond", "d"),
    ("diamond", "add", "--diamond", "d", "--path", "/usr/share/doc"),
    ("diamond", "commit", "--diamond", "d", "--message", "m"),
    ("diamond", "cancel", "--diamond", "d"),
    ("diamond", "split", "list", "--diamond", "d"),
    ("bundle", "list"),
    ("bundle", "get", "--bundle", "b"),
    ("bundle", "list", "files", "--bundle", "b"),
    ("bundle", "download", "--bundle", "b", "--destination", "/nowhere/at/all"),
]


@pytest.mark.parametrize("command", UNKNOWN_REPO, ids=" ".join)
def test_unknown_repo(stack, command):
    said = stack.refused(*command, "--repo", "nosuchrepo", exit_code=3)
    assert said == "datamon: there is no repo 'nosuchrepo'; make it with `datamon repo create --repo nosuchrepo`"


def test_unknown_diamond_and_bundle(stack, repo, source):
    for command in (("add", "--path", source), ("commit", "--message", "m"), ("cancel",), ("get",)):
        said = stack.refused("diamond", *command, "--repo", repo, "--diamond", "nosuch", exit_code=3)
        assert "there is no diamond 'nosuch'" in said
    assert "no bundle 'nosuch'" in stack.refused("bundle", "get", "--repo", repo, "--bundle", "nosuch", exit_code=3)


def test_a_repo_is_made_once(stack, repo):
    assert "already exists" in stack.refused("repo", "create", "--repo", repo, exit_code=4)


def test_a_diamond_id_is_used_once_whatever_became_of_it(stack, repo):
    assert stack("diamond", "initialize", "--repo", repo, "--diamond", "mine") == "mine"
    again = ("diamond", "initialize", "--repo", repo, "--diamond", "mine")
    assert "diamond 'mine' already exists" in stack.refused(*again, exit_code=4)
    stack("diamond", "cancel", "--repo", repo, "--diamond", "mine")
    assert "diamond 'mine' already exists" in stack.refused(*again, exit_code=4)


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-x", "é", "x" * 101, "a b"])
def test_illegal_ids(stack, name):
    for command in (
        ("repo", "create", f"--repo={name}"),
        ("diamond", "initialize", "--repo=r", f"--diamond={name}"),
        ("diamond", "add", "--repo=r", "--diamond=d", "--path=/", f"--split={name}"),
        ("bundle", "get", "--repo=r", f"--bundle={name}"),
    ):
        assert "is not a legal" in stack.refused(*command, exit_code=2)


@pytest.mark.parametrize(
    "command",
    [("nosuch",), ("diamond", "commit"), ("bundle", "list"), ("diamond", "add", "--repo=r", "--what"), ("repo",)],
)
def test_wrong_usage(stack, command):
    assert stack.run(*command, exit_code=2).stderr


def test_flags_that_exclude_each_other(stack, where, source):
    modes = ("--with-conflicts", "--with-checkpoints", "--ignore-conflicts", "--no-conflicts")
    for one, other in combinations(modes, 2):
        said = stack.refused("diamond", "commit", *where, "--message=m", other, one, exit_code=2)
        assert said == f"datamon: {one} and {other} exclude each other"
    assert "--create needs --split" in stack.refused(
        "diamond", "add", *where, "--path", source, "--create", exit_code=2
    )


def test_a_missing_source_makes_no_split(stack, where):
    said = stack.refused("diamond", "add", *where, "--path", "/no/such/path", exit_code=3)
    assert said == "datamon: the source '/no/such/path' does not exist"
    assert stack.json("diamond", "split", "list", *where) == []


def failed_add(stack, where, source):
    """An add whose id was printed before it failed: the sentence it said, and what the split says."""
    done = stack.run("diamond", "add", *where, "--path", source, exit_code=1)
    [split] = stack.json("diamond", "split", "list", *where)
    assert done.stdout.strip() == split["id"]
    assert split["state"] == "failed"
    assert split["reason"] in done.stderr
    assert split["lists"] == []
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_an_unreadable_source_folder(stack, where, files):
    source = files("locked", {"a": "1"})
    os.chmod(source, 0)
    try:
        said = stack.refused("diamond", "add", *where, "--path", source, exit_code=1)
    finally:
        os.chmod(source, 0o755)
    assert said == f"datamon: cannot read {source!r}: permission denied"
    assert stack.json("diamond", "split", "list", *where) == []


def test_an_unreadable_file_fails_the_split_or_is_skipped(stack, where, files):
    source = Path(files("locked", {"a": "1", "b": "2"}))
    (source / "b").chmod(0)
    assert f"cannot read '{source}/b': permission denied" in failed_add(stack, where, str(source))
    skipped = stack.run("diamond", "add", *where, "--path", str(source), "--skip-on-error")
    assert "1 file," in skipped.stderr
    assert "skipped 'b': permission denied" in skipped.stderr


def test_an_empty_source_is_an_empty_split_and_said_so(stack, where, files):
    source = files("empty", {})
    added = stack.run("diamond", "add", *where, "--path", source)
    assert f"{source!r} holds no files, so the split is empty" in added.stderr
    bundle = stack("diamond", "commit", *where, "--message", "nothing")
    assert stack.json("bundle", "get", *where[:2], "--bundle", bundle)["files"] == 0
    assert stack.json("bundle", "list", "files", *where[:2], "--bundle", bundle) == []


def test_a_name_that_is_not_utf_8(stack, where, files):
    source = files("source", {"good": "1"})
    Path(os.fsdecode(os.fsencode(source) + b"/bad\xff")).write_text("x")
    said = failed_add(stack, where, source)
    assert "'bad\\xff'" in said
    assert "not UTF-8" in said


def test_commit_with_no_done_split(stack, where):
    said = stack.refused("diamond", "commit", *where, "--message", "m", exit_code=4)
    assert "has no done split (0 running, 0 failed); add a split first" in said
    assert stack.json("diamond", "get", *where)["state"] == "initialized"


def test_commit_with_fewer_splits_than_asked_for(stack, where, source):
    stack("diamond", "add", *where, "--path", source)
    said = stack.refused("diamond", "commit", *where, "--message", "m", "--splits", "2", exit_code=4)
    assert "has 1 done split, fewer than the 2 asked for" in said


def test_nothing_follows_a_commit(stack, where, source, diamond):
    stack("diamond", "add", *where, "--path", source)
    stack("diamond", "commit", *where, "--message", "m")
    assert_closed(stack, where, source, f"diamond {diamond} is done")
    assert len(stack.json("bundle", "list", *where[:2])) == 1


def test_nothing_follows_a_cancel(stack, where, source, diamond):
    stack("diamond", "add", *where, "--path", source)
    stack("diamond", "cancel", *where)
    assert stack.json("diamond", "get", *where)["state"] == "canceled"
    assert_closed(stack, where, source, f"diamond {diamond} is canceled")
    assert stack.json("bundle", "list", *where[:2]) == []


def assert_closed(stack, where, source, sentence):
    for command in (("add", "--path", source), ("commit", "--message", "m"), ("cancel",)):
        assert sentence in stack.refused("diamond", *command, *where, exit_code=4)


def test_of_competing_commits_one_makes_the_bundle(stack, where, source):
    stack("diamond", "add", *where, "--path", source)
    commits = [stack.popen("diamond", "commit", *where, "--message", f"m{n}") for n in range(4)]
    ended = [(process.communicate(), process.returncode) for process in commits]
    assert sorted(code for _, code in ended) == [0, 4, 4, 4]
    [bundle] = [out.strip() for (out, _), code in ended if code == 0]
    assert [found["id"] for found in stack.json("bundle", "list", *where[:2])] == [bundle]
    for (out, err), code in ended:
        if code:
            assert out == ""
            assert "is committing: another commit was first" in err or "is done" in err


def test_forbidden_conflicts_name_files_and_splits_and_leave_the_diamond_open(stack, where, files, tmp_path):
    for number in (1, 2):
        path = files(f"p{number}", {"same": "s", "clash": f"{number}"})
        stack("diamond", "add", *where, "--path", path, "--split", f"node-{number}", "--create")
    said = stack.refused("diamond", "commit", *where, "--message", "m", "--no-conflicts", exit_code=5)
    assert "1 version would lose" in said
    assert "'clash' (splits node-1, node-2)" in said
    described = stack.json("diamond", "get", *where)
    assert described["state"] == "initialized"
    assert "1 version would lose" in described["reason"]
    assert stack.json("bundle", "list", *where[:2]) == []
    bundle = stack("diamond", "commit", *where, "--message", "m", "--ignore-conflicts")
    listed = stack.json("bundle", "list", "files", *where[:2], "--bundle", bundle)
    assert [file["name"] for file in listed] == ["clash", "same"]


def test_a_split_id_that_is_not_known_is_refused(stack, where, source):
    said = stack.refused("diamond", "add", *where, "--path", source, "--split", "nosuch", exit_code=3)
    assert "there is no split 'nosuch'" in said
    assert stack("diamond", "add", *where, "--path", source, "--split-id", "mine", "--create") == "mine"
    said = stack.refused("diamond", "add", *where, "--path", source, "--split", "mine", exit_code=4)
    assert "split mine is done" in said


def test_a_destination_that_holds_files_is_not_touched(stack, where, source, files):
    stack("diamond", "add", *where, "--path", source)
    bundle = stack("diamond", "commit", *where, "--message", "m")
    taken = files("taken", {"mine": "precious"})
    said = stack.refused("bundle", "download", *where[:2], "--bundle", bundle, "--destination", taken, exit_code=4)
    assert "is not empty" in said
    assert os.listdir(taken) == ["mine"]
    said = stack.refused(
        "bundle", "download", *where[:2], "--bundle", bundle, f"--destination={taken}/mine", exit_code=4
    )
    assert "is a file" in said


def test_no_server(tmp_path, files):
    alone = Command(tmp_path, {"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    alone("repo", "create", "--repo", "r")
    for command in (("diamond", "initialize"), ("diamond", "commit", "--diamond", "d", "--message", "m")):
        said = alone.refused(*command, "--repo", "r", exit_code=6)
        assert said.startswith("datamon: no Temporal server at 127.0.0.1:1")
        assert "datamon up" in said
    status = alone.run("status", "--format", "json", exit_code=6)
    assert '"answers": false' in status.stdout


def test_a_server_without_a_worker(stack, tmp_path, files, repo, where):
    """The command of another host, whose disks nobody here can see."""
    elsewhere = Command(stack.home, {"DATAMON_HOST": "elsewhere"})
    path = files("s", {"a": "1"})
    said = elsewhere.refused("diamond", "add", *where, "--path", path, "--detach", exit_code=6)
    assert "no worker serves the task queue 'datamon@elsewhere'" in said


def test_text_that_is_not_utf_8(stack, where, source):
    """As a terminal with another encoding sends it. Nothing gets stuck."""
    latin = os.fsdecode(b"\xe9t\xe9")
    for command in (
        ("diamond", "commit", *where, "--message", latin),
        ("diamond", "add", *where, "--path", source, "--split-tag", latin),
        ("diamond", "initialize", *where[:2], "--tag", latin),
        ("repo", "create", "--repo", "x", "--description", latin),
    ):
        assert "is not UTF-8" in stack.refused(*command, exit_code=2)
    assert "the message is empty" in stack.refused("diamond", "commit", *where, "--message", " ", exit_code=2)


def test_a_store_that_is_not_the_workers(stack, repo, tmp_path):
    """Else the diamond would open where nobody looks for it."""
    elsewhere = Command(stack.home, {"DATAMON_STORE": str(tmp_path / "other")})
    elsewhere("repo", "create", "--repo", repo)
    said = elsewhere.refused("diamond", "initialize", "--repo", repo, "--diamond", "lost", exit_code=1)
    assert "the worker does not use the store" in said
    assert stack.json("diamond", "get", "--repo", repo, "--diamond", "lost")["state"] == "canceled"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"TEMPORAL_PROFILE": "nosuch"}, "Profile 'nosuch' not found"),
        ({"DATAMON_CONTRIBUTOR": "a <b"}, "Name <email>"),
        ({"DATAMON_HOME": "/dev/null"}, "/dev/null"),
    ],
)
def test_an_environment_that_cannot_be_meant(tmp_path, setting, sentence):
    command = Command(tmp_path, {"TEMPORAL_ADDRESS": "127.0.0.1:1"} | setting)
    with command.popen("up" if "DATAMON_HOME" in setting else "status") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode in (1, 2)
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_a_namespace_that_is_not_there(stack):
    address = stack.json("status")["address"]
    lost = Command(stack.home, {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "nosuch"})
    assert "nosuch" in lost.run("status", exit_code=6).stderr


def test_output_that_cannot_be_written(stack):
    for redirect, code in (("> /dev/full", 1), (">&-", 0), ("| true", 0)):
        script = f"set -o pipefail; datamon repo list --format json {redirect}; exit ${{PIPESTATUS[1]:-$?}}"
        done = subprocess.run(["bash", "-c", script], env=stack.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, redirect
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["completion bash", "config show", "status", "diamond --help"])
def test_a_reader_that_has_seen_enough_is_no_failure(stack, command):
    script = f"datamon {command} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], env=stack.environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_store_that_is_no_store(tmp_path):
    command = Command(tmp_path, {"DATAMON_STORE": "gs://bucket"})
    assert "is not a store this datamon can use" in command.refused("repo", "list", exit_code=2)
    (tmp_path / "file").write_text("")
    command = Command(tmp_path, {"DATAMON_STORE": str(tmp_path / "file")})
    for what in (("create", "--repo", "r"), ("list",)):
        assert "cannot use the store" in command.refused("repo", *what, exit_code=6)


def test_a_value_that_is_missing_before_another_option_is_noticed(stack, where, source):
    """The usual cause is a variable that is empty."""
    said = stack.refused("diamond", "add", "--repo", where[1], "--diamond", "--path", source, exit_code=2)
    assert said.startswith(
        "datamon: --diamond has no value before --path; if it comes from a variable, the variable is empty"
    )
    said = stack.refused("diamond", "commit", *where, "--message", "--wait", exit_code=2)
    assert "--message has no value before --wait" in said


def test_words_and_globs_that_are_not_quoted_are_recognized(stack, where, source):
    said = stack.refused("diamond", "commit", *where, "--message", "March", "and", "April", exit_code=2)
    assert "Got unexpected extra arguments (and April); a value with spaces or globs must be quoted" in said


def test_a_label_that_is_given_for_a_bundle_is_recognized(stack, repo, source):
    stack("bundle", "upload", "--repo", repo, "--path", source, "--message", "m", "--label", "latest")
    said = stack.refused("bundle", "get", "--repo", repo, "--bundle", "latest", exit_code=3)
    assert said == "datamon: there is no bundle 'latest'; there is a label of that name: use --label latest"


def test_a_source_that_is_not_there_is_shown_as_it_was_looked_for(stack, where, tmp_path):
    done = stack.run("diamond", "add", *where, "--path", "nosuch", exit_code=3, cwd=tmp_path)
    assert done.stderr == f"datamon: the source '{tmp_path}/nosuch' does not exist\n"
    said = stack.refused("diamond", "add", *where, "--path", "s3:/bucket/part1", exit_code=2)
    assert said == "datamon: 's3:/bucket/part1' is not an S3 location; write it as s3://bucket/prefix"
