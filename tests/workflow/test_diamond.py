"""The workflows through the client, on the real server and real Spark."""

import asyncio

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError

from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, DatamonError, NotFound, NothingToCommit, SplitFailed, WrongState
from datamon.core.ids import DiamondId, RepoName, new_id
from datamon.diamonds.catalog import get_diamond
from datamon.diamonds.model import Diamond, DiamondState, SplitState
from datamon.merge.modes import ConflictMode, Order
from datamon.starter.client import Split, SplitOptions
from datamon.stores import keys
from datamon.stores.published import publish
from datamon.workflows.common.options import Options
from datamon.workflows.diamonds.diamond import DiamondWorkflow
from datamon.workflows.diamonds.messages import CommitAnswer, CommitRequest
from tests.workflow.helpers import (
    NOBODY,
    add_started,
    add_unending,
    bundles,
    is_committing,
    is_running,
    is_started,
    splits,
    until,
)


@pytest.fixture
async def diamond(datamon, repo):
    return await datamon.diamonds.initialize(repo)


async def test_the_client_of_the_design(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo=repo)
    added = [await diamond.add(files(f"p{n}", {f"{n}": "x" * n})) for n in range(3)]
    reports = await asyncio.gather(*(split.result() for split in added))
    assert [report.bytes for report in reports] == [0, 1, 2]
    status = await diamond.status()
    assert (status.state, status.files, status.splits) == ("initialized", 3, {"running": 0, "done": 3, "failed": 0})
    bundle = await diamond.commit(message="March")
    assert (bundle.files, bundle.bytes, bundle.conflicts, bundle.left_out) == (3, 3, 0, [])
    assert [found.id for found in bundles(datamon, diamond)] == [bundle.bundle]
    result = await diamond.handle.result()
    assert (result.state, result.answer) == (DiamondState.DONE, bundle)


async def test_many_paths_in_one_message(datamon, diamond, files):
    added = await diamond.add_all([files(f"p{n}", {f"{n}": "x"}) for n in range(8)])
    await asyncio.gather(*(split.result() for split in added))
    assert (await diamond.commit("m")).files == 8


async def test_of_twenty_commits_one_makes_the_bundle(datamon, diamond, files):
    await (await diamond.add(files("p", {"a": "1"}))).result()

    async def by_update(number):
        return await diamond.commit(f"update {number}")

    signaled = [new_id() for _ in range(12)]

    async def by_signal(number):
        await diamond.handle.signal("commit", CommitRequest(signaled[number], f"signal {number}"))

    jobs = [by_update(n) for n in range(8)] + [by_signal(n) for n in range(12)]
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    result = await diamond.handle.result()
    assert [bundle.id for bundle in bundles(datamon, diamond)] == [result.answer.bundle]
    won = [answer for answer in answers[:8] if isinstance(answer, CommitAnswer)]
    refused = [answer for answer in answers[:8] if isinstance(answer, WrongState)]
    refused += [answer for answer in answers[8:] if isinstance(answer, RPCError)]  # it came when all was over
    for request in signaled:
        outcome = await diamond.handle.query(DiamondWorkflow.commit_outcome, request)
        won += [outcome.answer] if outcome.answer else []
        refused += [outcome.refused.error()] if outcome.refused else []
    assert (len(won), len(refused)) == (1, 19)
    assert all("diamond" in str(error) or "already completed" in str(error) for error in refused)


async def test_a_commit_leaves_running_splits_out_and_stops_them(datamon, diamond, files):
    await (await diamond.add(files("p", {"a": "1"}))).result()
    slow = await add_unending(diamond)
    await until(lambda: is_started(diamond, slow))
    bundle = await diamond.commit("m")
    assert [(left.id, left.state) for left in bundle.left_out] == [(slow, SplitState.FAILED)]
    assert "still running when the diamond was committed" in bundle.left_out[0].reason
    stopped = splits(datamon, diamond)[slow]
    assert (stopped.state, stopped.reason) == (SplitState.FAILED, bundle.left_out[0].reason)
    [published] = bundles(datamon, diamond)
    assert published.origin.left_out == bundle.left_out
    assert len(published.origin.splits) == 1


async def test_a_commit_can_wait_for_splits_that_are_not_even_added_yet(datamon, diamond, files):
    commit = asyncio.ensure_future(diamond.commit("m", wait=True, splits=3))
    added = [await diamond.add(files(f"p{n}", {f"{n}": "x"})) for n in range(3)]
    bundle = await commit
    assert bundle.files == 3
    assert [(await split.result()).state for split in added] == [SplitState.DONE] * 3


async def test_a_waiting_commit_is_refused_when_all_have_ended_in_vain(datamon, diamond):
    commit = asyncio.ensure_future(diamond.commit("m", wait=True))
    failed = await diamond.add("/no/such/path")
    with pytest.raises(SplitFailed, match="does not exist"):
        await failed.result()
    with pytest.raises(NothingToCommit, match="0 running, 1 failed"):
        await commit
    assert (await diamond.status()).state is DiamondState.INITIALIZED


async def test_only_one_commit_can_wait(datamon, diamond):
    waiting = asyncio.ensure_future(diamond.commit("first", wait=True))
    await until(lambda: is_committing(diamond))
    with pytest.raises(WrongState, match="another commit was first"):
        await diamond.commit("second", wait=True)
    await diamond.cancel()
    with pytest.raises(WrongState, match="canceled before the commit"):
        await waiting


async def test_a_commit_that_waits_in_vain_gives_way_to_one_that_does_not(datamon, diamond, files):
    await (await diamond.add(files("p", {"a": "1"}))).result()
    waiting = asyncio.ensure_future(diamond.commit("first", wait=True, splits=1000))
    await until(lambda: is_committing(diamond))
    bundle = await diamond.commit("second")
    with pytest.raises(WrongState, match="did not wait was faster"):
        await waiting
    assert [found.id for found in bundles(datamon, diamond)] == [bundle.bundle]


async def test_a_commit_that_is_asked_for_again_after_the_end_gives_the_same_answer(datamon, diamond, files):
    """As a client does that was told to ask again, when the diamond has ended meanwhile."""
    await (await diamond.add(files("p", {"a": "1"}))).result()
    request = CommitRequest(new_id(), "m")
    await diamond.handle.signal("commit", request)
    await diamond.handle.result()
    answer = await diamond._ask(DiamondWorkflow.commit, request, "too late")
    assert [found.id for found in bundles(datamon, diamond)] == [answer.bundle]
    with pytest.raises(WrongState, match="is done"):
        await diamond.commit("another")


async def test_a_failed_commit_can_be_followed_by_a_good_one(datamon, diamond, files):
    for number in (1, 2):
        await (await diamond.add(files(f"p{number}", {"clash": str(number)}))).result()
    with pytest.raises(DatamonError, match="1 version would lose"):
        await diamond.commit("m", ConflictMode.FORBID)
    assert bundles(datamon, diamond) == []
    assert list(datamon.context.metadata.keys(f"bundles/{diamond.repo}/")) == []
    published = get_diamond(datamon.context, diamond.repo, diamond.id)
    assert (published.state, published.revision) == (DiamondState.INITIALIZED, 3)
    bundle = await diamond.commit("m", ConflictMode.CHECKPOINTS, Order.ADDED)
    [made] = bundles(datamon, diamond)
    assert (made.conflicts, made.checkpoints, bundle.conflicts) == (0, 1, 1)


async def test_cancel_stops_running_splits_and_waits_for_them(datamon, diamond, files):
    running = [await add_unending(diamond) for _ in range(3)]
    done = await diamond.add(files("p", {"a": "1"}))
    await done.result()
    await diamond.cancel("enough")
    found = splits(datamon, diamond)
    assert {found[split].state for split in running} == {SplitState.FAILED}
    assert {found[split].reason for split in running} == {"enough"}
    published = get_diamond(datamon.context, diamond.repo, diamond.id)
    assert published.state is DiamondState.CANCELED
    assert published.ended is not None
    assert (await diamond.handle.result()).state is DiamondState.CANCELED


async def test_the_cancel_button_does_the_same(datamon, diamond):
    split = await add_unending(diamond)
    await diamond.handle.cancel(reason="pressed by an operator")
    with pytest.raises(WorkflowFailureError) as ended:
        await diamond.handle.result()
    assert isinstance(ended.value.cause, CancelledError)
    assert (await diamond.handle.describe()).status is WorkflowExecutionStatus.CANCELED
    assert splits(datamon, diamond)[split].reason == "pressed by an operator"
    assert get_diamond(datamon.context, diamond.repo, diamond.id).state is DiamondState.CANCELED


async def test_signals_by_hand_as_from_the_web_ui(datamon, diamond, files):
    """Plain JSON and names, as an operator types them."""
    add = {
        "split": "by-hand",
        "request": "1",
        "path": files("p", {"a": "1"}),
        "queue": f"datamon@{datamon.settings.host}",
        "host": datamon.settings.host,
        "contributor": {"name": "Operator"},
    }
    await diamond.handle.signal("add", [add])
    await diamond.handle.signal("commit", {"request": "2", "message": "by hand", "wait": True})
    result = await diamond.handle.result()
    assert result.state is DiamondState.DONE
    [made] = bundles(datamon, diamond)
    assert (made.message, made.files, made.contributors) == ("by hand", 1, [Contributor("Operator")])


async def test_a_cancel_by_signal(datamon, diamond):
    await add_unending(diamond)
    await diamond.handle.signal("cancel", {"request": "1"})
    assert (await diamond.handle.result()).state is DiamondState.CANCELED


async def test_refused_adds_are_told_to_those_who_sent_them(datamon, diamond, files):
    path = files("p", {"a": "1"})
    with pytest.raises(NotFound, match="no split 'unknown'"):
        await diamond.add(path, SplitOptions(id="unknown"))
    split = await diamond.add(path, SplitOptions(id="mine", create=True))
    await split.result()
    with pytest.raises(WrongState, match="split mine is done: it cannot run again"):
        await diamond.add(path, SplitOptions(id="mine"))
    await diamond.handle.signal("add", [{**RAW, "split": "../../escape"}])
    status = await diamond.handle.query(DiamondWorkflow.split, "../../escape")
    assert not status.known
    assert "is not a legal split id" in str(status.refused.error())


RAW = {"request": "1", "path": "/", "queue": NOBODY, "host": "h", "contributor": {"name": "Ada"}}


async def test_a_repeated_signal_counts_once(datamon, diamond):
    for _ in range(3):
        await diamond.handle.signal("add", [{**RAW, "split": "once"}])
    page = await diamond.handle.query(DiamondWorkflow.splits, 0)
    assert [(split.split, split.generation) for split in page] == [("once", 1)]


async def test_a_failed_split_runs_again_under_its_id(datamon, diamond, files, tmp_path):
    split = await diamond.add(tmp_path / "late", SplitOptions(id="node", create=True))
    with pytest.raises(SplitFailed):
        await split.result()
    assert splits(datamon, diamond)["node"].state is SplitState.FAILED
    again = await diamond.add(files("late", {"a": "1"}), SplitOptions(id="node"))
    assert (await again.result()).generation == 2
    found = splits(datamon, diamond)["node"]
    assert (found.state, found.generation, found.files, found.reason) == (SplitState.DONE, 2, 1, "")
    assert (await diamond.commit("m")).files == 1


async def test_a_running_split_added_again_is_stopped_and_the_new_run_counts(datamon, diamond, files):
    split = await add_started(diamond)
    again = await diamond.add(files("p", {"a": "1"}), SplitOptions(id=split))
    assert (await again.result()).generation == 2
    assert splits(datamon, diamond)[split].state is SplitState.DONE
    assert (await diamond.commit("m")).files == 1


async def test_of_many_who_add_one_split_at_once_each_is_told_what_became_of_it(diamond, sparse, files):
    """Found by a worker that came back late: who was overtaken was told to add the split again."""
    again, path = SplitOptions(id="s", create=True), sparse(64)
    told = await asyncio.gather(*(diamond.add(path, again) for _ in range(8)), return_exceptions=True)
    overtaken = {str(one) for one in told if not isinstance(one, Split)}
    assert overtaken == {"split s failed: it was added again"}
    last = await diamond.add(files("p", {"a": "1"}), again)
    assert (await last.result()).files == 1
    told = await asyncio.gather(*(diamond.add(path, again) for _ in range(8)), return_exceptions=True)
    assert {type(one) for one in told} == {WrongState}, "it is done, and that is what all are told"


async def test_a_window_limits_how_many_splits_run_at_once(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo, options=Options(window=2))
    stuck = [await add_unending(diamond) for _ in range(2)]
    waiting = await diamond.add(files("p", {"a": "1"}))
    status = await diamond.status()
    assert (status.waiting, status.splits["running"]) == (1, 3)
    running = datamon.client.get_workflow_handle(f"split/{repo}/{diamond.id}/{stuck[0]}")
    await until(lambda: is_running(running))
    await running.cancel(reason="make room")
    assert (await waiting.result()).files == 1


async def test_a_split_that_somebody_terminates_is_noticed(datamon, diamond):
    split = await add_started(diamond)
    handle = datamon.client.get_workflow_handle(f"split/{diamond.repo}/{diamond.id}/{split}")
    await until(lambda: is_running(handle))
    await handle.terminate()

    async def failed():
        status = await diamond.handle.query(DiamondWorkflow.split, split)
        return status.state is SplitState.FAILED and status

    assert "terminated" in (await until(failed)).reason
    assert "terminated" in splits(datamon, diamond)[split].reason, "split.yaml is told, though nobody is left to do it"


async def test_a_commit_names_splits_that_had_no_chance_to_start(datamon, repo, files):
    diamond = await datamon.diamonds.initialize(repo, options=Options(window=1))
    await (await diamond.add(files("p", {"a": "1"}))).result()
    added = [await add_unending(diamond) for _ in range(3)]
    bundle = await diamond.commit("m")
    assert [left.id for left in bundle.left_out] == added
    assert {left.state for left in bundle.left_out} == {SplitState.FAILED}
    found = splits(datamon, diamond)
    assert [(found[split].state, found[split].attempts) for split in added[1:]] == [(SplitState.FAILED, 0)] * 2
    assert {found[split].reason for split in added} == {"it was still running when the diamond was committed"}


async def test_a_running_upload_is_really_stopped(datamon, diamond, sparse):
    """A file so large, and so empty, that it takes minutes to read and no time to make."""
    large = sparse(400)
    split = await diamond.add(large)
    await until(split.progress)
    await diamond.cancel("too slow")
    with pytest.raises(SplitFailed, match="too slow"):
        await split.result()
    found = splits(datamon, diamond)[split.id]
    assert (found.state, found.reason, found.lists) == (SplitState.FAILED, "too slow", [])


async def test_twenty_clients_with_one_id(datamon, repo):
    attempts = [datamon.diamonds.initialize(repo, "contested") for _ in range(20)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, AlreadyExists)]
    assert (len(refused), len(answers)) == (19, 20)


async def test_an_id_that_only_the_store_remembers_is_refused(datamon, repo):
    """As after Temporal's retention: the server knows nothing of it any more."""
    old = Diamond(
        id=DiamondId("old"),
        repo=RepoName(repo),
        state=DiamondState.DONE,
        contributor=Contributor("Ada"),
        created="2020-01-01T00:00:00.000000000Z",
        updated="2020-01-01T00:00:00.000000000Z",
        revision=3,
    )
    publish(datamon.context.vmetadata, keys.diamond(old.repo, old.id), old)
    with pytest.raises(AlreadyExists, match="diamond 'old'"):
        await datamon.diamonds.initialize(repo, "old")
    assert get_diamond(datamon.context, old.repo, old.id) == old


async def test_the_web_ui_is_told_the_story(datamon, diamond, files):
    await (await diamond.add(files("p", {"a": "1"}))).result()
    failed = await diamond.add("/no/such/path")
    with pytest.raises(SplitFailed):
        await failed.result()
    metadata = await diamond.handle.query("__temporal_workflow_metadata")
    details = str(metadata)
    for told in ("initialized", "1 done, 1 failed", "does not exist"):
        assert told in details
    described = await diamond.handle.describe()
    assert described.typed_search_attributes.search_attributes[0].value is not None
    listed = [w.id async for w in datamon.client.list_workflows(f"DatamonRepo = '{diamond.repo}'")]
    assert len(listed) == 3
