"""Every command in the docs is run, as it stands there."""

import re
import subprocess
from pathlib import Path

import pytest

from docs.reference import OUTPUT, reference
from tests.conftest import Command

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), TOP / "examples" / "README.md"]
RUN = {"README.md", "tutorial.md", "how-to.md"}
ELSEWHERE = re.compile(r"make |#! |spark-class|DATAMON_SPARK_MASTER=|pip install|git clone")


def blocks(page):
    """The fenced blocks of a page: their language and their text."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_is_shown_that_is_not_run(page):
    """What is run is in `bash`, on a page that is run; what cannot be is set up elsewhere, and says so."""
    for language, text in blocks(page):
        if language == "bash" and page.name in RUN:
            continue
        if re.search(r"^\s*(\w+=\$\()?datamon (up|down|repo|diamond|bundle|label|housekeeping)", text, re.MULTILINE):
            raise AssertionError(f"{page.name} shows what is not run:\n{text}")
        if language in ("sh", "bash"):
            assert ELSEWHERE.search(text), f"{page.name} shows what is not run, and does not say why:\n{text}"


def script(page):
    return "set -eu\n" + "\n".join(text for language, text in blocks(page) if language == "bash")


def run(page, command, folder):
    done = subprocess.run(
        ["bash", "-c", script(page)], env=command.environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "seen"), [("README.md", ["a.csv", "b.csv"]), ("docs/tutorial.md", ["A,Zurich", ".conflicts/"])]
)
def test_a_page_from_nothing_to_the_end(tmp_path, name, seen):
    out = run(TOP / name, Command(tmp_path / "home"), tmp_path)
    assert all(text in out for text in seen), out


def test_how_to(stack, files, tmp_path):
    files("part1", {"a.csv": "1", "b.csv": "2"})
    files("part2", {"c.csv": "3", "notes.txt": "4"})
    if "weather" not in [repo["name"] for repo in stack.json("repo", "list")]:
        stack("repo", "create", "--repo", "weather")
    unset = Command(stack.home, {"DATAMON_CONTRIBUTOR": ""})
    out = run(TOP / "docs" / "how-to.md", unset, tmp_path)
    assert re.search(r"contributor +Ada Lovelace <ada@example.org> +\S+/datamon.toml", out)
    assert "node-1" in out


def test_the_reference_is_of_today():
    assert OUTPUT.read_text() == reference(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
