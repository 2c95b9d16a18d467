import pytest

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


def test_a_split_comes_back_whole():
    split = Split(
        id=SplitId("s"),
        diamond=DiamondId("d"),
        repo=RepoName("r"),
        state=SplitState.DONE,
        generation=2,
        revision=3,
        tag="node: 1",
        contributor=Contributor("Ada"),
        host="h",
        source="/data/\x7f\u2028",
        created="2025-11-15T23:40:00.000000000Z",
        started="2025-11-15T23:40:00.000000000Z",
        lists=[
            ListRef("a" * 64, "b" * 64, 2, 3, "yes", "~", 99, latest=7, deletions=1, lost=True, index="g2-aa-00000")
        ],
    )
    assert descriptors.load(Split, "k", descriptors.dump(split)) == split


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
