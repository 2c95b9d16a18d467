"""The page about a diamond, made of what the store says."""

import re
from html.parser import HTMLParser

import pytest

from datamon import catalog, descriptors, keys
from datamon.errors import NotFound
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import (
    Bundle,
    ConflictMode,
    Contributor,
    Diamond,
    DiamondState,
    LeftOut,
    Order,
    Origin,
    Split,
    SplitState,
    TakenSplit,
    instant,
)
from datamon.names import EVERYTHING
from datamon.ranges import NumberedRange
from datamon.report import report_on
from datamon.stores import open_context
from starter.report import DRAWN, page
from tests.unit.test_commit import B, D, R, merge_range, task

ADA, BOB = Contributor("Ada", "ada@example.org"), Contributor("Bob <script>")
START = 1_763_000_000_000_000_000
NOW = instant(START + 100 * 10**9)


def at(seconds):
    return instant(START + seconds * 10**9)


def split(name, state=SplitState.DONE, *, started=1, ended=3, by=ADA, **more):
    return Split(
        id=SplitId(name),
        diamond=D,
        repo=R,
        state=state,
        generation=1,
        revision=3,
        contributor=by,
        host="h",
        source="/",
        created=at(0),
        started=at(started),
        ended=at(ended) if ended is not None else None,
        **{"tag": f"node {name}", **more},
    )


@pytest.fixture
def context(tmp_path):
    context = open_context(str(tmp_path))
    catalog.create_repo(context, R, "", ADA, START)
    return context


def publish(context, diamond, splits):
    context.vmetadata.create(keys.diamond(R, D), descriptors.dump(diamond))
    for one in splits:
        context.vmetadata.create(keys.split(R, D, one.id), descriptors.dump(one))


def diamond(state, **more):
    return Diamond(id=D, repo=R, state=state, contributor=ADA, created=at(0), updated=at(0), revision=1, **more)


@pytest.fixture
def committed(context):
    """Two splits that differ in a name, and one that failed."""
    merge = task(context, a=[("x/same", "a", 1), ("y", "a", 2)], b=[("x/same", "b", 3)])
    report = merge_range(NumberedRange(0, EVERYTHING), merge, context)
    left_out = [LeftOut(SplitId("c"), SplitState.FAILED, "disk full; see <b>--help</b>")]
    origin = Origin(
        id=D,
        mode=ConflictMode.KEEP,
        order=Order.UPLOADED,
        splits=[TakenSplit(SplitId("a"), 1, 0), TakenSplit(SplitId("b"), 1, 1)],
        left_out=left_out,
    )
    bundle = Bundle(
        id=B,
        repo=R,
        message="March & April",
        created=at(9),
        contributors=[ADA],
        parents=[],
        diamond=origin,
        files=report.files,
        bytes=report.bytes,
        conflicts=1,
        checkpoints=0,
        lists=report.lists,
    )
    catalog.publish_bundle(context, bundle)
    failed = split("c", SplitState.FAILED, ended=2, by=BOB, reason="disk full; see <b>--help</b>", tag="<i>&")
    splits = [split("a", files=2, bytes=20, stored=20), split("b", ended=61, files=1, bytes=10), failed]
    publish(context, diamond(DiamondState.DONE, ended=at(70), bundle=B), splits)
    return context


class Text(HTMLParser):
    """What a browser would show as text, and which elements there are."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self._skipped = [], "", False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._skipped = tag in ("style", "title")

    def handle_endtag(self, tag):
        self._skipped = False
        self.text += " "

    def handle_data(self, data):
        self.text += "" if self._skipped else data


def seen(context):
    html = page(report_on(context, R, D), NOW)
    return html, Text(html)


def test_the_page_tells_the_whole_story(committed):
    _, found = seen(committed)
    text = re.sub(r"\s+", " ", found.text)
    for words in (
        "Bundle b : March & April",
        "3 splits: 2 done, 1 failed",
        "took 1 min 10 s",
        "node b 1 min 00 s",
        "1 versions lost to a later one",
        "x/same a node a",
        "Ada <ada@example.org> 2 3",
        "Bob <script> 1 0",
        "Left out of the bundle",
        "c <i>& failed disk full; see <b>--help</b>",
    ):
        assert words in text, words


def test_the_page_needs_nothing_else_and_takes_no_orders_from_names(committed):
    html, found = seen(committed)
    assert not {tag for tag, _ in found.elements} & {"script", "link", "img", "b><i", "iframe"}
    assert not [attrs for _, attrs in found.elements if {"src", "href", "onload"} & set(attrs)]
    assert "http" not in html
    assert "url(" not in html


def test_a_diamond_that_is_open_has_bars_up_to_now(context):
    running = split("a", SplitState.RUNNING, ended=None)
    publish(context, diamond(DiamondState.INITIALIZED), [running, split("b", SplitState.FAILED, reason="why")])
    _, found = seen(context)
    assert "open for 1 min 40 s" in found.text
    assert "Failed so far" in found.text
    bars = [attrs for tag, attrs in found.elements if tag == "i" and attrs["class"] == "running"]
    assert bars == [{"class": "running", "style": "left:1.00%;width:99.00%"}]


def test_of_very_many_splits_the_slowest_are_drawn(context):
    many = [split(f"s{number:03d}", ended=2 + number, position=number) for number in range(DRAWN + 50)]
    publish(context, diamond(DiamondState.INITIALIZED), many)
    _, found = seen(context)
    drawn = [attrs["title"] for tag, attrs in found.elements if tag == "span" and "title" in attrs]
    assert drawn == [f"s{number:03d}" for number in range(50, DRAWN + 50)]
    assert "The 300 slowest of 350" in found.text


def test_an_empty_diamond_has_a_page_too(context):
    publish(context, diamond(DiamondState.INITIALIZED), [])
    assert "splits: none" in seen(context)[1].text


def test_a_diamond_that_is_not_there(context):
    with pytest.raises(NotFound):
        report_on(context, RepoName("r"), DiamondId("nowhere"))
