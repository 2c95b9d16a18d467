"""What things are called in Temporal: workflow ids, task queues and search attributes."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.sources.source import Source

TASK_QUEUE = "datamon"
HOUSEKEEPING = "housekeeping"  # id of the workflow, and of its schedule
STALE_STATE = "a query met a state that no replay would have; the workflow is read again"  # the client asks again
COMMAND_IDENTITY = " (a command)"  # what the identity of a worker for a single upload ends with
ANYWHERE = "anywhere"  # the host of a source that every worker can read

REPO = SearchAttributeKey.for_keyword("DatamonRepo")
STATE = SearchAttributeKey.for_keyword("DatamonState")
KIND = SearchAttributeKey.for_keyword("DatamonKind")
SPLITS = SearchAttributeKey.for_int("DatamonSplits")
SEARCH_ATTRIBUTES = {REPO.name: "Keyword", STATE.name: "Keyword", KIND.name: "Keyword", SPLITS.name: "Int"}


def diamond_workflow(repo: RepoName, diamond: DiamondId) -> str:
    """Id of the workflow that owns a diamond."""
    return f"diamond/{repo}/{diamond}"


def split_workflow(repo: RepoName, diamond: DiamondId, split: SplitId) -> str:
    """Id of the workflow that owns a split."""
    return f"split/{repo}/{diamond}/{split}"


def named_by(workflow_id: str) -> dict[str, str]:
    """Which repo, diamond and split the workflow with this id is about."""
    kind, _, rest = workflow_id.partition("/")
    fields = {"diamond": ("repo", "diamond"), "split": ("repo", "diamond", "split")}.get(kind, ())
    return dict(zip(fields, rest.split("/"), strict=False))


def host_queue(host: str) -> str:
    """Task queue of the workers that see one host's disks."""
    return f"{TASK_QUEUE}@{host}"


def upload_queue(source: Source, host: str) -> str:
    """Task queue of the workers that can read a source: any, or those of the host it is on."""
    return TASK_QUEUE if source.is_remote else host_queue(host)


def queues_of(host: str) -> list[str]:
    """The task queues that a worker on a host serves."""
    return [TASK_QUEUE, host_queue(host)]


def attributes(repo: RepoName, kind: str, state: str) -> TypedSearchAttributes:
    """What a workflow can be found by from its start."""
    return TypedSearchAttributes(
        [SearchAttributePair(REPO, repo), SearchAttributePair(KIND, kind), SearchAttributePair(STATE, state)]
    )
