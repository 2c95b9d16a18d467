"""docs/internals/reliability.md is what the harness found, and says so of every fault there is today."""

import json

from tests.faults import disk
from tests.faults.__main__ import OUTAGE_SECONDS
from tests.faults.report import DOCS, RESULTS, page
from tests.faults.scenarios import cluster_scenarios, scenarios


def test_the_page_is_what_the_results_say():
    results = json.loads(RESULTS.read_text())
    assert (DOCS / "reliability.md").read_text() == page(results)


def test_the_page_has_every_fault():
    every = [*scenarios(OUTAGE_SECONDS), *cluster_scenarios(), *disk.SCENARIOS.values()]
    run = {name for name, row in json.loads(RESULTS.read_text())["faults"].items() if row["runs"] > row["wrong"]}
    assert {scenario.name for scenario in every} <= run
