"""The way of a user through the command, on the real server and real Spark."""

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path

import yaml

from tests.conftest import tree, until


def parts(files):
    """Three folders that overlap: `same` is equal in all of them, `clash` differs."""
    return [
        files(f"part{n}", {f"own/{n}.txt": f"own {n}", "same.txt": "same", "deep/clash.txt": f"clash {n}"})
        for n in (1, 2, 3)
    ]


def test_three_parallel_uploads_become_one_bundle(stack, repo, files, tmp_path):
    diamond = stack("diamond", "initialize", "--repo", repo, "--tag", "nightly")
    where = ("--repo", repo, "--diamond", diamond)
    adds = [stack.popen("diamond", "add", *where, "--path", path) for path in parts(files)]
    splits = [add.communicate()[0].strip() for add in adds]
    assert [add.returncode for add in adds] == [0, 0, 0]

    listed = stack.json("diamond", "split", "list", *where)
    assert {split["id"] for split in listed} == set(splits)
    assert {split["state"] for split in listed} == {"done"}
    assert {(split["files"], split["bytes"]) for split in listed} == {(3, 16)}

    committed = stack.run("diamond", "commit", *where, "--message", "Diamond constructed")
    bundle = committed.stdout.strip()
    assert "7 files" in committed.stderr
    assert "2 conflicts among them" in committed.stderr

    stack("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(tmp_path / "out"))
    found = tree(tmp_path / "out")
    winner = found.pop("deep/clash.txt")
    assert found == {
        **{f"own/{n}.txt": f"own {n}" for n in (1, 2, 3)},
        "same.txt": "same",
        **{
            f".conflicts/{split}/deep/clash.txt": f"clash {n}"
            for n, split in enumerate(splits, 1)
            if f"clash {n}" != winner
        },
    }

    [described] = stack.json("bundle", "list", "--repo", repo)
    assert described == stack.json("bundle", "get", "--repo", repo, "--bundle", bundle)
    assert described["message"] == "Diamond constructed"
    assert described["contributors"] == [{"name": "Ada Test", "email": "ada@example.org"}]
    assert (described["files"], described["conflicts"]) == (7, 2)
    assert {split["id"] for split in described["origin"]["splits"]} == set(splits)
    listing = stack.json("bundle", "list", "files", "--repo", repo, "--bundle", bundle)
    assert sorted(file["name"] for file in listing) == sorted([*found, "deep/clash.txt"])
    own = stack.json("bundle", "list", "files", "--repo", repo, "--bundle", bundle, "--prefix", "own/")
    assert [file["name"] for file in own] == ["own/1.txt", "own/2.txt", "own/3.txt"]

    diamond_now = stack.json("diamond", "get", *where)
    assert (diamond_now["state"], diamond_now["bundle"], diamond_now["tag"]) == ("done", bundle, "nightly")
    assert [d["id"] for d in stack.json("diamond", "list", "--repo", repo)] == [diamond]


def test_the_download_of_a_bundle_uploaded_again_has_no_conflicts_in_it(stack, repo, files, tmp_path):
    first, second = parts(files)[:2]
    bundle = make_bundle(stack, repo, first, second)
    stack("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(tmp_path / "out"))
    assert (tmp_path / "out" / ".conflicts").is_dir()
    diamond = stack("diamond", "initialize", "--repo", repo)
    where = ("--repo", repo, "--diamond", diamond)
    added = stack.run("diamond", "add", *where, "--path", str(tmp_path / "out"))
    assert "skipped .conflicts" in added.stderr
    assert "skipped .datamon" in added.stderr
    again = stack("diamond", "commit", *where, "--message", "again")
    names = [file["name"] for file in stack.json("bundle", "list", "files", "--repo", repo, "--bundle", again)]
    assert names == ["deep/clash.txt", "own/1.txt", "own/2.txt", "same.txt"]


def make_bundle(stack, repo, *paths, commit=()):
    diamond = stack("diamond", "initialize", "--repo", repo)
    where = ("--repo", repo, "--diamond", diamond)
    for path in paths:
        stack("diamond", "add", *where, "--path", path)
    return stack("diamond", "commit", *where, "--message", "m", *commit)


def test_modes_and_times_survive(stack, repo, files, tmp_path):
    source = Path(files("source", {"run.sh": "#!/bin/sh", "plain": ""}))
    (source / "run.sh").chmod(0o755)
    (source / "plain").chmod(0o400)
    os.utime(source / "run.sh", ns=(1, 1_234_567_890_123_456_789))
    bundle = make_bundle(stack, repo, str(source))
    stack("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(tmp_path / "out"))
    found = (tmp_path / "out" / "run.sh").stat()
    assert (found.st_mode & 0o7777, found.st_mtime_ns) == (0o755, 1_234_567_890_123_456_789)
    assert (tmp_path / "out" / "plain").stat().st_mode & 0o7777 == 0o400


def test_the_example_of_the_specification(stack, repo, files, tmp_path):
    """Its script, with --wait on the commit, and with the number of splits that nobody else can know."""
    for number, path in enumerate(parts(files), 1):
        (tmp_path / f"datasource{number}").symlink_to(path)
    script = f"""
        set -eu
        repo="{repo}"
        diamond=$(datamon diamond initialize --repo "$repo")
        datamon diamond add --repo "$repo" --diamond "$diamond" --path {tmp_path}/part1 &
        datamon diamond add --repo "$repo" --diamond "$diamond" --path {tmp_path}/part2 &
        datamon diamond add --repo "$repo" --diamond "$diamond" --path {tmp_path}/part3 &
        datamon diamond split list --repo "$repo" --diamond "$diamond"
        datamon diamond commit --repo "$repo" --diamond "$diamond" --message "Diamond constructed" \\
            --wait --splits 3 > bundle
        wait
    """
    subprocess.run(["bash", "-c", script], env=stack.environment, cwd=tmp_path, check=True, timeout=100)
    bundle = (tmp_path / "bundle").read_text().strip()
    assert stack.json("bundle", "get", "--repo", repo, "--bundle", bundle)["files"] == 7


def test_what_lies_in_the_store_is_readable_yaml(stack, repo, files):
    make_bundle(stack, repo, files("one", {"a": "1"}))
    store = Path(stack.settings().store)
    objects = [path for path in store.rglob("*.yaml") if repo in str(path)]
    kinds = sorted(path.name.split("-")[0].removesuffix(".yaml") for path in objects)
    taken = next(path.stem for path in objects if "metadata/diamonds/" in str(path) and "vmetadata" not in str(path))
    assert kinds == sorted(["bundle", "bundle", "diamond", "repo", "split", taken])
    [bundle] = [path for path in objects if path.name == "bundle.yaml"]
    [reference] = yaml.safe_load(bundle.read_text())["lists"]
    objects.append(store / "metadata" / "lists" / reference["digest"][:2] / reference["digest"])
    for path in objects:
        assert yaml.safe_load(path.read_text())["version"] == 1


def test_tables_are_for_people(stack, repo, files):
    make_bundle(stack, repo, files("one", {"a": "1"}))
    assert repo in stack("repo", "list")
    header, row = stack("bundle", "list", "--repo", repo).splitlines()
    assert header.split() == ["BUNDLE", "CREATED", "FILES", "BYTES", "STORED", "CONFLICTS", "MESSAGE"]
    files_and_bytes, stored, rest = row.split()[-5:-3], row.split()[-3], row.split()[-2:]
    assert (files_and_bytes, rest) == (["1", "1"], ["0", "m"])
    assert stored in ("0", "1"), "another test may have stored the same byte"


def test_ctrl_c_stops_the_split_which_can_run_again(stack, repo, sparse, files):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    add = stack.popen("diamond", "add", *where, "--path", sparse(400))
    split = add.stdout.readline().strip()
    add.send_signal(signal.SIGINT)
    _, err = add.communicate(timeout=60)
    assert add.returncode == 130
    assert f"stopping split {split}" in err
    assert "Traceback" not in err
    [ended] = stack.json("diamond", "split", "list", *where)
    assert (ended["id"], ended["state"], ended["reason"]) == (split, "failed", "interrupted by its user")
    assert stack("diamond", "add", *where, "--path", files("p", {"a": "1"}), "--split", split) == split


def test_a_second_ctrl_c_does_not_wait_and_says_how_to_find_the_split(stack, repo, sparse):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    with stack.popen("diamond", "add", *where, "--path", sparse(400)) as add:
        split = add.stdout.readline().strip()
        until(lambda: stack.json("diamond", "split", "get", *where, "--split", split)["progress"])
        add.send_signal(signal.SIGINT)
        assert f"stopping split {split}" in add.stderr.readline()
        add.send_signal(signal.SIGINT)
        assert re.search(rf"split {split} (was told to stop|goes on); `datamon diamond split list`", add.stderr.read())
    assert add.returncode == 130
    stack("diamond", "cancel", *where)


def test_the_order_of_adding_decides_if_asked_to(stack, repo, files):
    first, second = files("p1", {"f": "first"}), files("p2", {"f": "second"})
    diamond = stack("diamond", "initialize", "--repo", repo)
    where = ("--repo", repo, "--diamond", diamond)
    for path in (first, second):
        stack("diamond", "add", *where, "--path", path)
    done = stack.run("diamond", "commit", *where, "--message", "m", "--order", "added", "--with-checkpoints")
    assert "1 checkpoint among them" in done.stderr
    described = stack.json("bundle", "get", "--repo", repo, "--bundle", done.stdout.strip())
    assert (described["origin"]["order"], described["checkpoints"]) == ("added", 1)


async def test_ctrl_c_leaves_a_commit_waiting_and_another_one_takes_over(stack, datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo)
    where = ("--repo", repo, "--diamond", diamond.id)
    stack("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    with stack.popen("diamond", "commit", *where, "--message", "m", "--wait", "--splits", "50") as commit:
        while not (await diamond.status()).committing:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)
        commit.send_signal(signal.SIGINT)
        _, err = commit.communicate(timeout=30)
    assert commit.returncode == 130
    assert "a commit that was accepted goes on" in err
    assert "Traceback" not in err
    assert stack("diamond", "commit", *where, "--message", "now")


def test_a_file_name_cannot_break_a_table_or_command_the_terminal(stack, repo, files):
    names = ["[red]x[/red]", "a b", "esc\x1b[31mred", "two\nlines"]
    bundle = make_bundle(stack, repo, files("odd", dict.fromkeys(names, "")))
    lines = stack("bundle", "list", "files", "--repo", repo, "--bundle", bundle).splitlines()
    assert [line.rsplit(maxsplit=2)[0] for line in lines] == [
        "NAME",
        "[red]x[/red]",
        "a b",
        "esc\\x1b[31mred",
        "two\\nlines",
    ]


def test_counts_of_an_open_diamond_are_those_of_now(stack, repo, files):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    stack("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    assert stack.json("diamond", "get", *where)["splits"] == {"running": 0, "done": 1, "failed": 0}
