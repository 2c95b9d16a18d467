from dataclasses import replace

import msgspec
import pytest
import yaml

from datamon.bundles.model import Repo
from datamon.core.contributors import Contributor
from datamon.core.errors import CorruptObject
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.lists.reference import ListRef
from datamon.stores import descriptors

REPO_YAML = b"""name: weather
description: Daily weather
contributor:
  name: Ada
  email: ada@example.org
created: '2025-11-15T23:40:00.123456789Z'
deleted: null
version: 1
"""
REPO = Repo(
    name=RepoName("weather"),
    description="Daily weather",
    contributor=Contributor("Ada", "ada@example.org"),
    created="2025-11-15T23:40:00.123456789Z",
)


def test_a_repo_is_yaml_that_people_read():
    assert descriptors.dump(REPO) == REPO_YAML
    assert descriptors.load(Repo, "k", REPO_YAML) == REPO


LISTS = [
    ListRef("a" * 64, "b" * 64, 2, 3, "yes", "~\x7f\u2028", 99, latest=7, deletions=1, lost=True, index="g2-aa-00000"),
    ListRef("c" * 64, "d" * 64, 1, 1, "\xe9", "\U0001f600", 98),
]
SPLIT = Split(
    id=SplitId("s"),
    diamond=DiamondId("d"),
    repo=RepoName("r"),
    state=SplitState.DONE,
    generation=2,
    revision=3,
    tag="node: 1",
    contributor=Contributor("Ada"),
    host="h",
    source="/data/\x7f\u2028\nlists: [\n",
    created="2025-11-15T23:40:00.000000000Z",
    started="2025-11-15T23:40:00.000000000Z",
    lists=LISTS,
)
LINES = (
    b'lists: [\n {"digest":"%s","identity":"%s","count":2,"bytes":3,"first":"yes","last":"~\\u007f\\u2028","head":99,'
    b'"latest":7,"deletions":1,"lost":true,"index":"g2-aa-00000"},\n'
    b' {"digest":"%s","identity":"%s","count":1,"bytes":1,"first":"\xc3\xa9","last":"\xf0\x9f\x98\x80","head":98,'
    b'"latest":0,"deletions":0,"lost":false,"index":""},\n ]\n'
) % tuple(letter * 64 for letter in (b"a", b"b", b"c", b"d"))


def test_a_split_comes_back_whole():
    assert descriptors.load(Split, "k", descriptors.dump(SPLIT)) == SPLIT
    assert descriptors.load(Split, "k", descriptors.dump(replace(SPLIT, lists=[]))) == replace(SPLIT, lists=[])


def test_each_list_has_a_line_that_is_yaml_too():
    body = descriptors.dump(SPLIT)
    assert body.endswith(b"\nversion: 1\n" + LINES)
    plain = yaml.safe_load(body)
    assert plain == msgspec.to_builtins(SPLIT)
    by_hand = yaml.safe_dump(plain).encode()
    assert LINES not in by_hand
    assert descriptors.load(Split, "k", by_hand) == SPLIT


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(LINES.replace(b'"count":2', b'"count":"2"'), id="a text for a number"),
        pytest.param(LINES.replace(b'"head":99,', b""), id="a field is missing"),
        pytest.param(LINES.replace(b"b" * 64, b"b" * 63), id="no digest"),
        pytest.param(LINES.replace(b'"first":"yes"', b'"first":"\\ud800"'), id="no text"),
        pytest.param(LINES.replace(b'"index":""', b'"index":' + b"[" * 100_000), id="deep"),
        pytest.param(LINES.replace(b" ]\n", b""), id="cut off"),
        pytest.param(LINES + b"more: [\n 1,\n ]\n", id="more behind them"),
    ],
)
def test_damaged_lines_are_refused_naming_key_and_field(lines):
    body = descriptors.dump(SPLIT).replace(LINES, lines)
    with pytest.raises(CorruptObject, match=r"object k is damaged: (`lists`|not YAML)") as refused:
        descriptors.load(Split, "k", body)
    assert "\n" not in str(refused.value)


def test_a_diamond_keeps_its_counts():
    diamond = Diamond(
        id=DiamondId("1"),
        repo=RepoName("r"),
        state=DiamondState.DONE,
        contributor=Contributor("Ada"),
        created="c",
        updated="u",
        revision=3,
        splits={SplitState.DONE: 2, SplitState.FAILED: 0},
    )
    assert descriptors.load(Diamond, "k", descriptors.dump(diamond)) == diamond


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (REPO_YAML.replace(b"version: 1", b"version: 2"), "`version` is 2"),
        (REPO_YAML.replace(b"version: 1\n", b""), "`version` is None"),
        (REPO_YAML.replace(b"description: Daily weather\n", b""), "`description`"),
        (REPO_YAML.replace(b"description: Daily weather", b"description: 3"), r"\$\.description"),
        (b"just text", "not a mapping"),
        (b"a: [", "not YAML"),
        (b"!!python/object/apply:os.system ['true']", "a tag"),
        (b"\xff\xfe\xff", "not YAML"),
    ],
)
def test_a_damaged_descriptor_is_refused_naming_key_and_field(body, why):
    with pytest.raises(CorruptObject, match=why) as refusal:
        descriptors.load(Repo, "repos/weather/repo.yaml", body)
    assert "repos/weather/repo.yaml" in str(refusal.value)
