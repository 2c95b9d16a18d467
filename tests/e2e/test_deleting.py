"""Deleting bundles and repos, finding files over bundles, and a folder that becomes another bundle."""

import pytest

from tests.conftest import tree


def uploaded(stack, repo, path, *more):
    return stack("bundle", "upload", "--repo", repo, "--path", path, "--message", "m", *more)


def test_a_deleted_bundle_is_gone_and_says_who_deleted_it(stack, repo, files, tmp_path):
    kept = uploaded(stack, repo, files("1", {"a": "same", "b": "1"}))
    gone = uploaded(stack, repo, files("2", {"a": "same", "b": "2"}), "--label", "latest")
    deleting = ("bundle", "delete", "--repo", repo, "--bundle", gone)
    assert "there is no terminal to ask on; add --yes" in stack.refused(*deleting, exit_code=2)
    said = stack.refused(*deleting, "--yes", exit_code=4)
    assert "the label latest would point to nothing; move it with `datamon label set` first" in said
    stack("label", "set", "--repo", repo, "--label", "latest", "--bundle", kept)
    stack(*deleting, "--yes", "--reason", "it holds a password")
    for command in (("get",), ("list", "files"), ("download", "--destination", str(tmp_path / "out"))):
        said = stack.refused("bundle", *command, "--repo", repo, "--bundle", gone, exit_code=3)
        assert f"there is no bundle '{gone}': Ada Test <ada@example.org> deleted it at 20" in said
        assert said.endswith(": it holds a password")
    assert [one["id"] for one in stack.json("bundle", "list", "--repo", repo)] == [kept]
    stack("bundle", "download", "--repo", repo, "--bundle", kept, "--destination", str(tmp_path / "kept"))
    assert tree(tmp_path / "kept") == {"a": "same", "b": "1"}
    assert uploaded(stack, repo, files("3", {"c": "3"})), "the next upload has no base to compare with, and goes on"
    assert "deleted it" in stack.refused(*deleting, "--yes", exit_code=3)


@pytest.mark.usefixtures("housekeeping_schedule")
def test_a_deleted_repo_is_gone_with_its_bundles_and_its_name_is_not_given_again(stack, repo, files):
    bundle = uploaded(stack, repo, files("1", {"a": "1"}))
    diamond = stack("diamond", "initialize", "--repo", repo)
    deleting = ("repo", "delete", "--repo", repo, "--yes")
    said = stack.refused(*deleting, exit_code=4)
    assert f"it has 1 diamond open, for example {diamond}; end open diamonds first, with" in said
    stack("diamond", "cancel", "--repo", repo, "--diamond", diamond)
    stack(*deleting, "--reason", "a trial")
    assert repo not in [one["name"] for one in stack.json("repo", "list")]
    again = stack.refused("repo", "create", "--repo", repo, exit_code=4)
    assert f"repo {repo} is deleted: its name is not given again (Ada Test <ada@example.org> deleted it at 20" in again
    for command in (
        ("bundle", "list"),
        ("bundle", "get", "--bundle", bundle),
        ("diamond", "initialize"),
    ):
        said = stack.refused(*command, "--repo", repo, exit_code=3)
        assert f"there is no repo '{repo}': Ada Test <ada@example.org> deleted it at 20" in said
        assert said.endswith(": a trial")
    assert stack.json("housekeeping", "run", "--older-than", "520w", "--dry-run")["failures"] == {}


def test_files_are_found_in_all_bundles_of_a_repo(stack, repo, files):
    first = uploaded(stack, repo, files("1", {"2026/a.csv": "1", "2026/b.csv": "2"}))
    second = uploaded(stack, repo, files("2", {"2026/a.csv": "changed", "2027/a.csv": "3"}))

    def found(pattern):
        return [(one["bundle"], one["name"]) for one in stack.json("bundle", "find", "--repo", repo, pattern)]

    assert found("a.csv") == [(first, "2026/a.csv"), (second, "2026/a.csv"), (second, "2027/a.csv")]
    assert found("2026/a.csv") == [(first, "2026/a.csv"), (second, "2026/a.csv")]
    assert found("2027/*") == [(second, "2027/a.csv")]
    assert found("nosuch") == []
    table = stack("bundle", "find", "--repo", repo, "b.csv").splitlines()
    assert table[0].split() == ["BUNDLE", "CREATED", "SIZE", "HASH", "NAME"]
    assert table[1].split()[-1] == "2026/b.csv"


def test_a_folder_becomes_another_bundle(stack, repo, files, tmp_path):
    first = uploaded(stack, repo, files("1", {"a": "1", "old/x": "2", "old/mine": "3", "f": "a file", "same": "4"}))
    second = uploaded(stack, repo, files("2", {"a": "one", "f/g": "now a folder", "same": "4"}))
    out = tmp_path / "out"

    def download(bundle, *more):
        return stack.run("bundle", "download", "--repo", repo, "--bundle", bundle, "--destination", str(out), *more)

    download(first)
    (out / "old" / "mine").write_text("changed by hand")
    (out / "notes.txt").write_text("never downloaded")
    done = download(second, "--delete")
    assert tree(out) == {
        "a": "one",
        "f/g": "now a folder",
        "same": "4",
        "old/mine": "changed by hand",
        "notes.txt": "never downloaded",
    }
    assert "2 files of an earlier download deleted" in done.stderr
    assert "1 file of an earlier download kept, because somebody has changed them" in done.stderr
    done = download(first, "--delete")
    assert tree(out)["f"] == "a file"
    assert tree(out)["notes.txt"] == "never downloaded"
    said = stack.refused(
        "bundle", "download", "--repo", repo, "--bundle", first, "--destination", str(out), "--delete",
        "--name-filter", "a", exit_code=2,
    )  # fmt: skip
    assert "--delete makes a folder the whole bundle" in said


def test_nothing_is_deleted_through_a_link(stack, repo, files, tmp_path):
    first = uploaded(stack, repo, files("1", {"d/x": "1"}))
    second = uploaded(stack, repo, files("2", {"y": "2"}))
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    where = ("--repo", repo, "--destination", str(out))
    stack("bundle", "download", *where, "--bundle", first)
    (out / "d").rename(elsewhere)
    (out / "d").symlink_to(elsewhere)
    stack("bundle", "download", *where, "--bundle", second, "--delete")
    assert (elsewhere / "x").read_text() == "1"


@pytest.mark.parametrize("name", ["blob", "metadata", "vmetadata"])
def test_a_store_that_is_not_there_is_not_taken_for_an_empty_one(stack, tmp_path, name):
    from tests.conftest import Command

    (tmp_path / "empty" / name).mkdir(parents=True)
    command = Command(stack.home, {"DATAMON_STORE": str(tmp_path / "empty")})
    for words in (("repo", "list"), ("bundle", "list", "--repo", "r"), ("diamond", "list", "--repo", "r")):
        said = command.refused(*words, exit_code=6)
        assert said.startswith(f"datamon: there is no store at {tmp_path}/empty; make one with `datamon repo create`")
    assert command("repo", "create", "--repo", "first") == "first"
    assert [one["name"] for one in command.json("repo", "list")] == ["first"]
    assert "there is no repo 'r'" in command.refused("bundle", "list", "--repo", "r", exit_code=3)


def test_a_download_of_a_part_gives_no_right_to_delete(stack, repo, files, tmp_path):
    """Whoever fetches one file into a folder of their own has not handed that folder over."""
    out = tmp_path / "1"
    first = uploaded(stack, repo, files("1", {"a": "1", "b": "2"}))
    second = uploaded(stack, repo, files("2", {"c": "3"}))
    where = ("--repo", repo, "--destination", str(out))
    stack("bundle", "download", "file", *where, "--bundle", first, "--file", "a", "--force")
    stack("bundle", "download", *where, "--bundle", first, "--name-filter", "b", "--force")
    stack("bundle", "download", *where, "--bundle", second, "--delete")
    assert tree(out) == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize("pattern", ["", "#a", "!a", "\\"])
def test_a_name_that_can_match_nothing_is_refused(stack, repo, pattern):
    assert stack.refused("bundle", "find", "--repo", repo, "--", pattern, exit_code=2)
