"""Histories that were saved when they happened, replayed on today's code.

A red test here means: diamonds that are open right now would get stuck after an upgrade. Guard the change with
`workflow.patched`; do not save the histories anew. Each folder is of one version of the code.
"""

import json
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from worker.service import WORKFLOWS
from workflows.diamond import DiamondWorkflow
from workflows.messages import DiamondResult
from workflows.record import DiamondRecord
from workflows.split import SplitWorkflow

HISTORIES = Path(__file__).parent / "histories"
SAVED = sorted(HISTORIES.glob("*/*.json"))


def load(path):
    saved = json.loads(path.read_text())
    return WorkflowHistory.from_json(saved["workflow_id"], saved["history"])


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_todays_code_goes_on_with_yesterdays_workflows(path):
    await Replayer(workflows=WORKFLOWS).replay_workflow(load(path))


def test_every_shape_is_there():
    assert {path.parent.name: len(list(path.parent.glob("*.json"))) for path in SAVED} == {
        "1": 12,
        "2": 15,
        "3": 18,
        "4": 18,
    }


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
