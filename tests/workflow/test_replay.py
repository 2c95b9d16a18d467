"""Histories that were saved when they happened, replayed on today's code.

Each folder is of one released version, and every later version must replay it. A red test here means: diamonds that are
open right now would get stuck after an upgrade. Guard the change with `workflow.patched`; do not save the histories of
a released version anew. What is not released yet can be saved into `current` (`save_histories`).
"""

import json
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import DiamondResult
from datamon.workflows.diamonds.record import DiamondRecord
from datamon.workflows.diamonds.split import SplitWorkflow
from datamon.workflows.registry import all_workflows

HISTORIES = Path(__file__).parent / "histories"
SAVED = sorted(HISTORIES.glob("*/*.json"))


def load(path):
    saved = json.loads(path.read_text())
    return WorkflowHistory.from_json(saved["workflow_id"], saved["history"])


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_todays_code_goes_on_with_yesterdays_workflows(path):
    await Replayer(workflows=all_workflows()).replay_workflow(load(path))


def test_every_shape_is_there():
    assert {path.parent.name: len(list(path.parent.glob("*.json"))) for path in SAVED} == {"0.2.0": 21}


@workflow.defn(name="DiamondWorkflow", sandboxed=False)
class Careless(DiamondWorkflow):
    """A DiamondWorkflow that somebody changed without thinking of those that are open."""

    @workflow.init
    def __init__(self, record: DiamondRecord) -> None:
        super().__init__(record)

    @workflow.run
    async def run(self, record: DiamondRecord) -> DiamondResult:
        await workflow.sleep(1)
        return await super().run(record)


async def test_a_change_that_would_break_open_diamonds_is_caught():
    committed = next(path for path in SAVED if path.stem == "diamond-committed")
    with pytest.raises(NondeterminismError):
        await Replayer(workflows=[Careless, SplitWorkflow]).replay_workflow(load(committed))
