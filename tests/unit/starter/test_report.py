"""The page about a diamond, made of what the store says."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from datamon.bundles.catalog import publish_bundle
from datamon.bundles.model import DiamondOrigin, LeftOut, TakenSplit
from datamon.bundles.repos import create_repo
from datamon.content.entry import Entry, Place
from datamon.core.contributors import Contributor
from datamon.core.errors import NotFound
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.core.instants import instant
from datamon.diamonds.commit import merge_task
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.diamonds.report import report_on
from datamon.lists.writer import UploadListWriter
from datamon.merge.kernel import whole_merge
from datamon.merge.modes import ConflictMode, Order
from datamon.starter.report import DRAWN, page
from datamon.stores import descriptors, keys
from datamon.stores.context import open_context
from tests.bundles import B, D, R, bundle_of

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
    create_repo(context, R, "", ADA, START)
    return context


def publish(context, diamond, splits):
    context.vmetadata.create(keys.diamond(R, D), descriptors.dump(diamond))
    for one in splits:
        context.vmetadata.create(keys.split(R, D, one.id), descriptors.dump(one))


def diamond(state, **more):
    return Diamond(id=D, repo=R, state=state, contributor=ADA, created=at(0), updated=at(0), revision=1, **more)


def put_lists_of(context, split, files):
    """The split with a list of files (name, letter of their hash, time)."""
    writer = UploadListWriter()
    for name, letter, time in files:
        writer.add(Entry(name, letter * 64, 10, 420, 0, time, Place("d" * 64, 0)))
    body, reference = writer.seal(keys.upload_index(1, "abcdefgh", 0))
    context.vmetadata.create(keys.uploaded_list(keys.split_folder(R, D, split.id), reference.index), body)
    return replace(split, files=len(files), lists=[reference])


@pytest.fixture
def committed(context):
    """Two splits that differ in a name, and one that failed."""
    a = put_lists_of(context, split("a", bytes=20, stored=20), [("x/same", "a", 1), ("y", "a", 2)])
    b = put_lists_of(context, split("b", ended=61, bytes=10), [("x/same", "b", 3)])
    failed = split("c", SplitState.FAILED, ended=2, by=BOB, reason="disk full; see <b>--help</b>", tag="<i>&")
    taken = [TakenSplit(SplitId("a"), 1, 0), TakenSplit(SplitId("b"), 1, 1)]
    lists = whole_merge(merge_task([a, b], taken, ConflictMode.KEEP, Order.UPLOADED), context)
    origin = DiamondOrigin(
        diamond=D,
        mode=ConflictMode.KEEP,
        order=Order.UPLOADED,
        splits=taken,
        left_out=[LeftOut(failed.id, failed.state, failed.reason)],
    )
    bundle = bundle_of(
        lists,
        sum(one.count for one in lists),
        message="March & April",
        created=at(9),
        contributors=[ADA],
        bytes=sum(one.bytes for one in lists),
        conflicts=1,
    )
    publish_bundle(context, R, replace(bundle, origin=origin))
    publish(context, diamond(DiamondState.DONE, ended=at(70), bundle=B), [a, b, failed])
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


def rendered(context):
    html = page(report_on(context, R, D), NOW)
    return html, Text(html)


def test_the_page_tells_the_whole_story(committed):
    _, shown = rendered(committed)
    text = re.sub(r"\s+", " ", shown.text)
    for words in (
        "Bundle b : March & April",
        "3 splits: 2 done, 1 failed",
        "took 1 min 10 s",
        "node b b 1 min 00 s",
        "1 version lost to a later one, and is kept under its own split.",
        "x/same a node a 10 B b node b",
        "Ada <ada@example.org> 2 3",
        "Bob <script> 1 0",
        "Left out of the bundle",
        "c <i>& failed disk full; see <b>--help</b>",
    ):
        assert words in text, words


def test_the_page_needs_nothing_else_and_takes_no_orders_from_names(committed):
    html, shown = rendered(committed)
    assert not {tag for tag, _ in shown.elements} & {"script", "link", "img", "b><i", "iframe"}
    assert not [attrs for _, attrs in shown.elements if {"src", "href", "onload"} & set(attrs)]
    assert "http" not in html
    assert "url(" not in html


def test_a_diamond_that_is_open_has_bars_up_to_now(context):
    running = split("a", SplitState.RUNNING, ended=None)
    publish(context, diamond(DiamondState.INITIALIZED), [running, split("b", SplitState.FAILED, reason="why")])
    _, shown = rendered(context)
    assert "open for 1 min 40 s" in shown.text
    assert "Failed so far" in shown.text
    bars = [attrs for tag, attrs in shown.elements if tag == "i" and attrs["class"] == "running"]
    assert bars == [{"class": "running", "style": "left:1.00%;width:99.00%"}]


def test_of_very_many_splits_the_slowest_are_drawn(context):
    many = [split(f"s{number:03d}", ended=2 + number, position=number) for number in range(DRAWN + 50)]
    publish(context, diamond(DiamondState.INITIALIZED), many)
    _, shown = rendered(context)
    drawn = [attrs["title"] for tag, attrs in shown.elements if tag == "span" and "title" in attrs]
    assert drawn == [f"s{number:03d}" for number in range(50, DRAWN + 50)]
    assert "The 300 slowest of 350" in shown.text


def test_an_empty_diamond_has_a_page_too(context):
    publish(context, diamond(DiamondState.INITIALIZED), [])
    assert "splits: none" in rendered(context)[1].text


def test_a_diamond_that_is_not_there(context):
    with pytest.raises(NotFound):
        report_on(context, RepoName("r"), DiamondId("nowhere"))


def test_the_time_before_a_split_was_added_again_is_no_waiting(context):
    """It failed after 2 s, was added again 40 s later, and ran for 10 s: that is a bar of 10 s out of 50."""
    again = replace(split("a", ended=50), generation=2, created=at(0), added=at(40), started=at(40))
    publish(context, diamond(DiamondState.INITIALIZED), [again, split("b", ended=2)])
    html, shown = rendered(context)
    assert "For splits that were added again, the newest run is shown" in shown.text
    assert 'class="waited" style="left:80.00%;width:0.00%"' in html
    assert 'class="done" style="left:80.00%;width:20.00%"' in html
