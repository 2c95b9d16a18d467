"""Labels, dry runs, listings, recovery and housekeeping from the command line."""

import pytest

from datamon.workflows.common.options import Options
from tests.conftest import tree
from tests.workflow.helpers import add_started, add_unending


def uploaded(stack, repo, path, *more):
    return stack("bundle", "upload", "--repo", repo, "--path", path, "--message", "m", *more)


def test_labels(stack, repo, files, tmp_path):
    first = uploaded(stack, repo, files("1", {"f": "first"}), "--label", "latest")
    second = uploaded(stack, repo, files("2", {"f": "second"}), "--label", "latest")
    label = ("--repo", repo, "--label", "latest")
    assert stack.json("label", "get", *label)["bundle"] == second
    assert [one["bundle"] for one in stack.json("label", "get", *label, "--history")] == [second, first]
    assert stack.json("bundle", "get", *label)["id"] == second
    assert stack("bundle", "download", "file", *label, "--file", "f") == "second"
    stack("bundle", "download", *label, "--destination", str(tmp_path / "out"))
    assert tree(tmp_path / "out") == {"f": "second"}

    said = stack.refused("label", "set", *label, "--bundle", first, "--expect", first, exit_code=4)
    assert said == f"datamon: label latest is at {second}: it was not moved, for {first} was expected"
    stack("label", "set", *label, "--bundle", first, "--expect", second)
    stack("label", "set", "--repo", repo, "--label", "approved", "--bundle", first)
    table = stack("label", "list", "--repo", repo).splitlines()
    assert [line.split()[:2] for line in table] == [["LABEL", "BUNDLE"], ["approved", first], ["latest", first]]
    assert len(stack.json("label", "list", "--repo", repo, "--prefix", "app")) == 1


def test_a_diff_of_two_bundles(stack, repo, files):
    uploaded(stack, repo, files("1", {"a": "1", "d/b": "2", "d/c": "3"}), "--label", "old")
    new = uploaded(stack, repo, files("2", {"a": "1", "d/b": "two", "e": "4"}))
    done = stack.run("bundle", "diff", "--repo", repo, "old", new)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["CHANGE", "SIZE", "NAME"],
        ["changed", "3", "d/b"],
        ["removed", "1", "d/c"],
        ["added", "1", "e"],
    ]
    assert done.stderr == "1 added, 1 changed, 1 removed\n"
    [changed, removed] = stack.json("bundle", "diff", "--repo", repo, "old", new, "--prefix", "d/")
    assert (changed["before"]["size"], changed["after"]["size"], "after" in removed) == (1, 3, False)
    assert stack.json("bundle", "diff", "--repo", repo, new, new) == []
    unknown = stack.refused("bundle", "diff", "--repo", repo, "old", "nosuch", exit_code=3)
    assert unknown == "datamon: there is no bundle or label 'nosuch'"


def test_labels_that_are_wrong(stack, repo):
    both = ("--bundle", "b", "--label", "latest")
    assert "exclude each other" in stack.refused("bundle", "get", "--repo", repo, *both, exit_code=2)
    assert "say which bundle" in stack.refused("bundle", "get", "--repo", repo, exit_code=2)
    unknown = stack.refused("bundle", "get", "--repo", repo, "--label", "nosuch", exit_code=3)
    assert unknown == "datamon: there is no label 'nosuch'; `datamon label list` shows all labels"
    assert "not a legal label" in stack.refused("label", "get", "--repo", repo, "--label", "a/b", exit_code=2)
    assert "no bundle 'b'" in stack.refused(
        "label", "set", "--repo", repo, "--label", "l", "--bundle", "b", exit_code=3
    )


@pytest.fixture
def where(stack, repo):
    return ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))


def added(stack, where, path, split):
    return stack("diamond", "add", *where, "--path", path, "--split", split, "--create")


def test_a_dry_run_and_the_files_of_splits(stack, where, files):
    added(stack, where, files("1", {"f": "first", "same": "s"}), "one")
    added(stack, where, files("2", {"f": "second", "same": "s"}), "two")
    dry = ("diamond", "commit", *where, "--dry-run")
    done = stack.run(*dry)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["OUTCOME", "SPLIT", "NAME", "NOTE"],
        ["taken", "one", "2", "files,", "1", "of", "them", "would", "lose"],
        ["taken", "two", "2", "files"],
        ["wins", "two", "f"],
        ["conflict", "one", "f", "kept", "as", ".conflicts/one/f"],
    ]
    assert "3 files, 12 B, 1 conflict; nothing was changed" in done.stderr
    refused = stack.run(*dry, "--no-conflicts", "--format", "json", exit_code=5)
    assert '"contested"' in refused.stdout
    assert "'f' (splits one, two)" in refused.stderr
    assert "cannot be combined with --wait" in stack.refused(*dry, "--wait", exit_code=2)
    assert "Missing option '--message'" in stack.refused("diamond", "commit", *where, exit_code=2)
    assert stack.json("diamond", "get", *where)["state"] == "initialized"

    listed = stack.json("diamond", "split", "list", "files", *where)
    assert [(file["split"], file["name"]) for file in listed] == [
        ("one", "f"),
        ("one", "same"),
        ("two", "f"),
        ("two", "same"),
    ]
    some = stack("diamond", "split", "list", "files", *where, "--split", "two", "--prefix", "s").splitlines()
    assert [line.split()[:3] for line in some] == [["SPLIT", "NAME", "SIZE"], ["two", "same", "1"]]
    missing = ("diamond", "split", "list", "files", *where, "--split", "nosuch")
    assert "no split 'nosuch'" in stack.refused(*missing, exit_code=3)
    assert "Missing option '--diamond'" in stack.refused("diamond", "split", "list", "--repo", where[1], exit_code=2)


async def test_what_a_commit_leaves_out_is_said(stack, datamon, where, files):
    added(stack, where, files("p", {"a": "1"}), "quick")
    await add_started(datamon.diamonds.get(where[1], where[3]), "slow")
    done = stack.run("diamond", "commit", *where, "--message", "m", "--label", "latest")
    reason = "it was still running when the diamond was committed"
    assert f"left out split slow: {reason}\n" in done.stderr
    assert "label latest points to it" in done.stderr
    [left] = stack.json("bundle", "get", "--repo", where[1], "--label", "latest")["origin"]["left_out"]
    assert left == {"id": "slow", "state": "failed", "reason": reason}
    [stopped] = stack.json("diamond", "split", "list", *where, "--state", "failed")
    assert (stopped["id"], stopped["reason"]) == ("slow", reason)


async def test_splits_that_wait_for_a_place_are_listed(stack, datamon, repo):
    diamond = await datamon.diamonds.initialize(repo, options=Options(window=1))
    running, waiting = await add_started(diamond), await add_unending(diamond)
    where = ("--repo", repo, "--diamond", diamond.id)
    found = stack.json("diamond", "split", "list", *where)
    assert [(one["id"], one["state"]) for one in found] == [(running, "running"), (waiting, "running")]
    assert (found[1]["source"], found[1]["host"], found[1]["started"]) == ("/nowhere", "nobody", None)
    last = stack("diamond", "split", "list", *where).splitlines()[-1]
    assert last.endswith("waiting for a place")
    await diamond.cancel()


async def test_a_lost_diamond_is_recovered(stack, datamon, where, files):
    added(stack, where, files("p", {"a": "1"}), "node")
    nothing = stack.refused("diamond", "recover", *where, exit_code=4)
    assert "its workflow exists, so there is nothing to recover" in nothing
    await datamon.diamonds.get(where[1], where[3]).handle.terminate()
    assert "datamon diamond recover" in stack.refused("diamond", "commit", *where, "--message", "m", exit_code=1)
    assert "is initialized; splits: 1 done" in stack.run("diamond", "recover", *where).stderr
    assert stack("diamond", "commit", *where, "--message", "m")
    assert "is done: there is nothing" in stack.refused("diamond", "recover", *where, exit_code=4)
    unknown = stack.refused("diamond", "recover", "--repo", where[1], "--diamond", "nosuch", exit_code=3)
    assert "no diamond 'nosuch'" in unknown


@pytest.mark.usefixtures("housekeeping_schedule")
def test_housekeeping(stack, repo):
    """Ten years back: there can be nothing to remove from under the other tests."""
    report = stack.json("housekeeping", "run", "--older-than", "520w", "--dry-run")
    assert (report["removed"], report["dry_run"]) == (0, True)
    assert "apparently abandoned" in stack.run("housekeeping", "run", "--older-than", "520w").stderr
    assert "more than a hundred years" in stack.refused("housekeeping", "run", "--older-than", "99999d", exit_code=2)
    assert "'soon' is not a span of time" in stack.refused("housekeeping", "run", "--older-than", "soon", exit_code=2)
    scheduled = stack.json("housekeeping", "schedule", "--cron", "0 5 * * *", "--older-than", "520w")
    assert stack.json("housekeeping", "get") == scheduled
    assert scheduled["cron"] == "0 5 * * *"
    stack("housekeeping", "schedule", "--off")
    assert "no schedule 'housekeeping'" in stack.refused("housekeeping", "get", exit_code=3)
