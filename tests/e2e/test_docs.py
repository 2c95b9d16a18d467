"""Every command in the docs is run, as it stands there, and every link leads somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from docs.reference import PAGES as WRITTEN
from tests.conftest import Command

TOP = Path(__file__).parents[2]
PAGES = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").rglob("*.md")), TOP / "examples" / "README.md"]
TUTORIAL = TOP / "docs" / "getting-started" / "tutorial.md"
IN_S3 = TOP / "docs" / "getting-started" / "s3.md"
ELSEWHERE = re.compile(r"make |#! |spark-class|DATAMON_SPARK_MASTER=|pip install|git clone")
SHOWN = re.compile(
    r"^\s*(\w+=\$\()?datamon (up|down|status|repo|diamond|bundle|label|config|housekeeping)", re.MULTILINE
)


def called(page):
    return str(page.relative_to(TOP))


def blocks(page):
    """The fenced blocks of a page: their language and their text."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def script(page):
    return "\n".join(text for language, text in blocks(page) if language == "bash")


GUIDES = [page for page in PAGES if script(page) and page not in (TOP / "README.md", TUTORIAL, IN_S3)]


def run(page, command, folder):
    """Run all `bash` blocks of a page; what they print, errors among it."""
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; set -eu\n{script(page)}"],
        env=command.environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_no_command_is_shown_that_is_not_run(page):
    """What stands in `bash` is run, on every page; what cannot be is set up elsewhere, stands in `sh`, and says so."""
    for language, text in blocks(page):
        if language == "bash":
            continue
        assert not SHOWN.search(text), f"{called(page)} shows what is not run:\n{text}"
        if language == "sh":
            assert ELSEWHERE.search(text), f"{called(page)} shows what is not run, and does not say why:\n{text}"


def test_the_pages_that_people_follow_have_commands():
    assert {"README.md", "docs/getting-started/tutorial.md"} <= {called(page) for page in PAGES if script(page)}
    assert {page.parent.name for page in GUIDES} == {"how-to", "operations"}


def plain(text):
    """The lines of an output without what differs from run to run: ids, numbers, hashes, paths, spaces."""
    text = re.sub(r"\b[0-9A-Za-z]{27}\b", "ID", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    text = re.sub(r"(?<!\S)(\w+:)?/\S+", "PATH", text)
    text = re.sub(r"\d+(\.\d+)?", "N", text)
    return {" ".join(line.split()) for line in text.splitlines()}


@pytest.mark.timeout(300)  # two stacks, and forty commands
def test_the_readme_prints_what_it_shows_and_then_the_tutorial_works_too(tmp_path):
    """One after the other, as a newcomer does it: with the same home, and in a checkout that stays as it was."""
    (checkout := tmp_path / "checkout").mkdir()
    more = {"DATAMON_HOST": "laptop", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = Command(tmp_path / "home", more)
    page = TOP / "README.md"
    shown = plain("".join(text for language, text in blocks(page) if language == "text"))
    assert len(shown) > 15
    printed = plain(run(page, command, checkout))
    assert shown <= printed, f"only in README.md: {shown - printed}\nprinted: {printed}"
    out = run(TUTORIAL, command, checkout)
    assert all(text in out for text in ("A,Zurich", ".conflicts/", "exit code 1")), out
    assert list(checkout.iterdir()) == []


def test_a_store_in_s3_from_nothing(s3, tmp_path):
    command = Command(tmp_path / "home", s3.environment)
    out = run(IN_S3, command, tmp_path)
    assert "day-2.csv" in out, out


@pytest.mark.parametrize("page", GUIDES, ids=called)
@pytest.mark.usefixtures("housekeeping_schedule", "weather")
def test_a_guide(stack, files, tmp_path, page):
    files("part1", {"a.csv": "1", "b.csv": "2"})
    files("part2", {"c.csv": "3", "notes.txt": "4"})
    out = run(page, Command(stack.home, {"DATAMON_CONTRIBUTOR": ""}), tmp_path)
    if page.name == "settings.md":
        assert re.search(r"contributor +Ada Lovelace <ada@example.org> +\S+/datamon.toml", out)
    if page.name == "uploads.md":
        assert "node-1" in out


def test_the_reference_is_of_today():
    for path, page in WRITTEN.items():
        assert path.read_text() == page(), "run `make docs`"


def anchors(page):
    """What a link can lead to inside of a page: its headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose):
        if "://" in target:
            continue
        leads_to = page.parent / target if target else page
        assert leads_to.exists(), f"{called(page)} links to {target}"
        if anchor and leads_to.suffix == ".md":
            assert anchor in anchors(leads_to), f"{called(page)} links to {target}#{anchor}"


def test_every_page_is_in_the_index():
    """Somebody who reads docs/README.md finds every page, or the folder with its own index."""
    index = TOP / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)", index.read_text())}
    for page in (TOP / "docs").rglob("*.md"):
        assert page == index or {page, page.parent} & linked, f"{called(page)} is not in docs/README.md"
