"""The short form of `make torture`: every kind of fault once, with one seed."""

import pytest

from datamon.merge.modes import Order
from tests.faults import disk
from tests.faults.fetching import killed_downloads
from tests.faults.scenarios import (
    Scenario,
    change_source,
    cut_temporal,
    kill_at_all,
    kill_in_cancel,
    kill_temporal,
    one_run,
    outage,
    overtaken,
    skewed_clocks,
    spoilt_caches,
    storm,
    zombie,
)
from tests.faults.stack import farm

pytestmark = pytest.mark.timeout(400)

SEED = 7
KILLS = ("the plan", "an upload", "the merge", "bundle.yaml", "the label")
ONCE = [
    Scenario("kill -9 of a worker, again and again", kill_at_all(KILLS), remote=True, label=True),
    Scenario("kill -9 of a worker in a cancel", kill_in_cancel("split.yaml: failed", done=False), canceled=True),
    Scenario("kill -9 of Temporal", kill_temporal),
    Scenario("slow and breaking connections to Temporal", cut_temporal(5)),
    Scenario("failing requests and lost answers", storm(0.08)),
    Scenario("no store", outage(5)),
    Scenario("a zombie", zombie("bundle.yaml")),
    Scenario("a zombie whose split was added again", overtaken("split.yaml with its lists")),
    Scenario("a source file changes", change_source("changes"), remote=False, large=True, may_fail=1),
    Scenario("a source file vanishes", change_source("vanishes"), remote=False, large=True, may_fail=1),
    Scenario("downloads that are killed", killed_downloads, large=True),
    Scenario("a spoilt cache", spoilt_caches, remote=False),
    Scenario("clocks an hour apart", skewed_clocks, remote=False, order=Order.ADDED),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with farm(tmp_path_factory.mktemp("farm") / "here") as running:
        yield running


@pytest.mark.parametrize("scenario", ONCE, ids=lambda scenario: scenario.name)
async def test_nothing_is_lost(built, scenario):
    built.mend()
    async with await built.connect() as datamon:
        verdict, refused = await one_run(built, datamon, scenario, SEED)
    assert verdict.state == ("canceled" if "cancel" in scenario.name else "done")
    if "source file" in scenario.name:
        assert ["large" in str(error) for error in refused] == [True]


def test_a_store_in_a_directory():
    """On one small disk, one after the other."""
    verdicts = disk.in_its_own_mounts(SEED, *disk.SCENARIOS)
    assert len(verdicts) == len(disk.SCENARIOS)
    assert {verdict.state for verdict, _ in verdicts} <= {"done", "canceled"}
