"""The client for programs without an event loop."""

import threading

import pytest

from datamon.core.errors import AlreadyExists, NotFound, SplitFailed
from datamon.diamonds.model import DiamondState, SplitState
from datamon.merge.modes import ConflictMode
from datamon.starter.blocking import SplitOptions, connect


@pytest.fixture(scope="module")
def dm(stack):
    with connect(stack.settings()) as dm:
        yield dm


def test_the_life_of_a_diamond(dm, files):
    repo = dm.repos.create("blocking", "described").name
    assert repo in [one.name for one in dm.repos.list()]
    with pytest.raises(AlreadyExists):
        dm.repos.create("blocking")
    diamond = dm.diamonds.initialize(repo, tag="t")
    first, second = diamond.add_all([files("p1", {"a": "1"}), files("p2", {"a": "2"})])
    assert [first.result().files, second.result().files] == [1, 1]
    assert diamond.status().splits == {"running": 0, "done": 2, "failed": 0}
    assert [split.split for split in diamond.splits()] == [first.id, second.id]
    assert diamond.preview(ConflictMode.KEEP).conflicts == 1
    answer = dm.diamonds.get(repo, diamond.id).commit("m", label="latest")
    assert answer.files == 2
    assert dm.labels.get(repo, "latest").bundle == answer.bundle
    assert dm.labels.set(repo, "good", answer.bundle).name == "good"
    assert [bundle.id for bundle in dm.bundles.list(repo)] == [answer.bundle]


def test_what_happens_far_away_is_raised_here(dm, repo, sparse):
    diamond = dm.diamonds.initialize(repo)
    with pytest.raises(NotFound):
        diamond.add("/", SplitOptions(id="unknown"))
    slow = diamond.add(sparse(400))
    while not slow.stop("enough"):
        pass
    with pytest.raises(SplitFailed, match="enough"):
        diamond.split(slow.id).result()
    assert [split.state for split in diamond.splits()] == [SplitState.FAILED]
    diamond.cancel()
    assert diamond.status().state is DiamondState.CANCELED


def test_several_threads_share_a_connection(dm, repo, files):
    diamond = dm.diamonds.initialize(repo)
    threads = [threading.Thread(target=diamond.add, args=[files(f"p{n}", {f"f{n}": ""})]) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert diamond.commit("m", wait=True, splits=5).files == 5


async def test_it_works_inside_a_loop_too(dm, repo):
    assert dm.diamonds.initialize(repo).status().state is DiamondState.INITIALIZED
