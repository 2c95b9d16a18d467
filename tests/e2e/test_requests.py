"""An orchestrator that tries again: the same request counts once, and has the same result."""

import pytest

from tests.conftest import until_it_says


@pytest.fixture
def source(files):
    return files("source", {"a": "1"})


def test_every_step_may_be_sent_again(stack, repo, source):
    opening = ("diamond", "initialize", "--repo", repo, "--request", "run-7", "--meta", "team=north")
    diamond = stack(*opening)
    assert stack(*opening) == diamond
    where = ("--repo", repo, "--diamond", diamond)
    adding = ("diamond", "add", *where, "--path", source, "--request", "part-1")
    split = stack(*adding)
    assert stack(*adding) == split
    assert len(stack.json("diamond", "split", "list", *where)) == 1
    committing = ("diamond", "commit", *where, "--message", "m", "--label", "latest", "--request", "commit-1")
    answer = stack.json(*committing)
    assert stack.json(*committing) == answer
    assert stack(*committing) == answer["bundle"]
    assert stack(*adding) == split, "after the diamond has ended, too"
    assert stack(*opening) == diamond
    assert len(stack.json("bundle", "list", "--repo", repo)) == 1


def test_what_comes_too_late_is_told_which_bundle_there_is(stack, repo, source):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    stack("diamond", "add", *where, "--path", source)
    bundle = stack("diamond", "commit", *where, "--message", "m", "--request", "one")
    for command in (
        ("commit", *where, "--message", "m"),
        ("commit", *where, "--message", "m", "--request", "two"),
        ("add", *where, "--path", source),
        ("cancel", *where, "--request", "one-more"),
    ):
        assert f"it became bundle {bundle}" in stack.refused("diamond", *command, exit_code=4)


def test_a_request_that_failed_is_tried_again(stack, repo, files):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    committing = ("diamond", "commit", *where, "--message", "m", "--request", "c", "--no-conflicts")
    for text in ("1", "2"):
        stack("diamond", "add", *where, "--path", files(f"node-{text}", {"a": text}))
    assert "would lose" in stack.refused(*committing, exit_code=5)
    assert "would lose" in stack.refused(*committing, exit_code=5)
    assert stack(*committing[:-1])


def test_a_cancel_may_be_sent_again(stack, repo):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    for _ in range(2):
        stack("diamond", "cancel", *where, "--request", "stop")
    assert "is canceled" in stack.refused("diamond", "cancel", *where, exit_code=4)


def test_a_request_of_another_diamond_is_not_taken_for_ours(stack, repo):
    stack("diamond", "initialize", "--repo", repo, "--diamond", "mine", "--request", "one")
    again = ("diamond", "initialize", "--repo", repo, "--diamond", "mine", "--request")
    assert stack(*again, "one") == "mine"
    assert "already exists" in stack.refused(*again, "two", exit_code=4)
    assert "the request is empty" in stack.refused(*again, " ", exit_code=2)


def test_a_commit_waits_for_as_many_done_splits_as_it_was_told(stack, repo, files):
    """A node fails, is restarted, and adds its split again; the commit waits for that."""
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    stack("diamond", "add", *where, "--path", files("one", {"a": "1"}))
    waiting = stack.popen("diamond", "commit", *where, "--message", "m", "--wait", "--splits", "2")
    broken = ("diamond", "add", *where, "--path", files("two", {"b": "2"}), "--split", "s", "--split-tag", "node-2")
    stack.run(*broken, "--create", "--name-filter", "nosuch", exit_code=1)
    said = until_it_says(waiting, "failed")
    assert "split node-2 failed: no file in " in said
    assert waiting.poll() is None
    stack(*broken[:-2])
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert stack.json("bundle", "get", "--repo", repo, "--bundle", out.strip())["files"] == 2
    assert stack.json("diamond", "split", "get", *where, "--split", "s")["tag"] == "node-2", "it keeps its tag"


def test_a_commit_waits_no_longer_than_it_was_told(stack, repo, source):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    split = stack("diamond", "add", *where, "--path", source)
    stack.run("diamond", "add", *where, "--path", source, "--name-filter", "nosuch", "--split-tag", "n2", exit_code=1)
    late = ("diamond", "commit", *where, "--message", "m", "--wait", "--splits", "3", "--timeout", "1s")
    done = stack.run(*late, exit_code=4)
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"datamon: after 1 s diamond {where[3]} has 1 done split, fewer than the 3 asked for")
    assert "1 failed: n2 (" in said
    assert "passes the name filter 'nosuch'" in said
    assert stack("diamond", "commit", *where, "--message", "m"), "the diamond is still open"
    assert stack.json("diamond", "split", "get", *where, "--split", split)["state"] == "done"
    assert "--timeout needs --wait" in stack.refused(*late[:-5], "--timeout", "1s", exit_code=2)


def test_metadata_of_diamonds_and_bundles_is_kept_and_filtered_by(stack, repo, source):
    north = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo, "--meta", "team=north"))
    stack("diamond", "initialize", "--repo", repo, "--meta", "team=south")
    [found] = stack.json("diamond", "list", "--repo", repo, "--meta", "team=north")
    assert found["id"] == north[3]
    stack("diamond", "add", *north, "--path", source)
    bundle = stack("diamond", "commit", *north, "--message", "m", "--meta", "run=7")
    stack("bundle", "upload", "--repo", repo, "--path", source, "--message", "other", "--meta", "run=8")
    [found] = stack.json("bundle", "list", "--repo", repo, "--meta", "run=7", "--meta", "team=north")
    assert (found["id"], found["metadata"]) == (bundle, {"team": "north", "run": "7"})


def test_a_request_of_one_kind_is_not_taken_for_one_of_another(stack, repo, source):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo, "--request", "job-7"))
    stack("diamond", "add", *where, "--path", source, "--request", "job-7")
    bundle = stack("diamond", "commit", *where, "--message", "m", "--request", "job-7")
    said = stack.refused("diamond", "cancel", *where, "--request", "job-7", exit_code=4)
    assert f"it became bundle {bundle}" in said
    other = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    stack("diamond", "cancel", *other, "--request", "job-7")
    said = stack.refused("diamond", "commit", *other, "--message", "m", "--request", "job-7", exit_code=4)
    assert "is canceled" in said


def test_an_add_that_failed_is_made_again_by_the_same_request(stack, repo, source):
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))
    adding = ("diamond", "add", *where, "--path", source, "--request", "part")
    stack.run(*adding, "--name-filter", "nosuch", exit_code=1)
    split = stack(*adding)
    assert stack.json("diamond", "split", "get", *where, "--split", split)["state"] == "done"
