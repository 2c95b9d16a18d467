"""What a diamond accepts and refuses, without Temporal."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamon.bundles.model import LeftOut, TakenSplit
from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage, NotFound, NothingToCommit, WrongState
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.model import DiamondState, SplitState
from datamon.sources.source import Source
from datamon.workflows.common.message_checks import checked_message
from datamon.workflows.common.refusals import REMEMBERED
from datamon.workflows.diamonds.details import describe
from datamon.workflows.diamonds.messages import AddSplit, CancelRequest, CommitAnswer, CommitRequest, SplitReport
from datamon.workflows.diamonds.record import MAX_SPLITS, DiamondRecord

ADA = Contributor("Ada")


def split(name, request="1", **more):
    return AddSplit(SplitId(name), request, Source("/p"), "datamon@h", "h", ADA, **more)


@pytest.fixture
def record():
    return DiamondRecord(RepoName("r"), DiamondId("d"), ADA)


def start(record, name):
    with record.changing(SplitId(name)) as row:
        row.waiting = row.waiting or split(name)
    record.begin(SplitId(name))
    record.splits[name].started = True
    return record.splits[name]


def end(record, name, state=SplitState.DONE, **more):
    record.report(SplitReport(SplitId(name), record.splits[name].generation, state, **more))


def done(record, *names):
    for name in names:
        record.add(split(name), "now")
        start(record, name)
        end(record, name)


def test_a_split_is_taken_on_once(record):
    assert record.add(split("s"), "now") is None
    assert record.add(split("s"), "later") is None
    assert (record.added, record.splits["s"].created) == (1, "now")
    assert record.splits["s"].waiting == split("s")


@pytest.mark.parametrize(
    ("add", "error"),
    [
        (split("a/b"), BadUsage),
        (split(""), BadUsage),
        (split("unknown", must_exist=True), NotFound),
        (split("done", "2"), WrongState),
        (split("done", "2", must_exist=True), WrongState),
    ],
)
def test_what_is_refused_is_remembered_and_changes_nothing(record, add, error):
    done(record, "done")
    refused = record.add(add, "now")
    assert isinstance(refused, error)
    status = record.split(add.split)
    assert status.refused.request == add.request
    assert str(status.refused.error()) == str(refused)
    assert record.added == 1


def test_only_the_newest_refusals_are_remembered(record):
    for number in range(REMEMBERED + 5):
        record.add(split(f"s{number}", must_exist=True), "now")
    assert len(record.refused) == REMEMBERED
    assert "s4" not in record.refused
    assert "s5" in record.refused


def test_a_failed_split_runs_again_in_a_new_place_in_line(record):
    record.add(split("s"), "now")
    record.add(split("t"), "now")
    start(record, "s")
    end(record, "s", SplitState.FAILED, reason="bad luck")
    assert record.splits["s"].state is SplitState.FAILED
    assert record.add(split("s", "2", must_exist=True), "later") is None
    row = record.splits["s"]
    assert (row.state, row.reason, row.position, row.created) == (SplitState.RUNNING, "", 3, "now")
    assert [name for name, _ in record.in_line()] == ["t", "s"]


def test_a_running_split_that_is_added_again_is_to_stop_and_its_report_counts_for_nothing(record):
    record.add(split("s"), "now")
    row = start(record, "s")
    record.add(split("s", "2"), "later")
    assert row.stop
    assert not row.started
    end(record, "s", SplitState.FAILED, reason="stopped")
    assert (row.open, row.state, row.reason) == (False, SplitState.RUNNING, "")
    assert row.waiting.request == "2"


def test_reports_of_the_unknown_and_of_the_dead_are_ignored(record):
    record.report(SplitReport(SplitId("unknown"), 1, SplitState.DONE))
    record.add(split("s"), "now")
    start(record, "s")
    start(record, "s")
    record.report(SplitReport(SplitId("s"), 1, SplitState.DONE))
    assert record.splits["s"].state is SplitState.RUNNING
    end(record, "s", files=2)
    end(record, "s", SplitState.FAILED)
    assert (record.splits["s"].state, record.splits["s"].files) == (SplitState.DONE, 2)


def test_a_commit_needs_done_splits(record):
    with pytest.raises(NothingToCommit, match="no done split"):
        record.check_commit(CommitRequest("1", "m"))
    done(record, "s")
    record.check_commit(CommitRequest("1", "m"))
    with pytest.raises(NothingToCommit, match="1 done split, fewer than the 2"):
        record.check_commit(CommitRequest("1", "m", splits=2))
    record.check_commit(CommitRequest("1", "m", splits=2, wait=True))


def test_a_waiting_commit_starts_when_enough_are_done_and_none_runs(record):
    record.commit = CommitRequest("1", "m", wait=True, splits=2)
    assert not record.may_commit()
    done(record, "a")
    assert not record.may_commit()
    record.add(split("b"), "now")
    assert not record.may_commit()
    start(record, "b")
    end(record, "b", SplitState.FAILED)
    assert not record.may_commit(), "its node may be restarted, and add it again"
    record.add(split("b", "again"), "now")
    start(record, "b")
    assert not record.may_commit()
    end(record, "b")
    assert record.may_commit()


def test_a_commit_that_waits_for_no_number_of_splits_starts_when_none_runs(record):
    record.accept_commit(CommitRequest("1", "m", wait=True))
    assert not record.may_commit()
    done(record, "a")
    assert record.may_commit()


def test_a_commit_that_has_waited_too_long_fails_and_says_what_failed(record):
    done(record, "a")
    record.add(split("b"), "now")
    start(record, "b")
    end(record, "b", SplitState.FAILED, reason="disk full")
    request = CommitRequest("1", "m", wait=True, splits=2, timeout_seconds=60)
    record.accept_commit(request, 1000)
    assert record.deadline == 1060
    record.give_up_waiting()
    assert (record.commit, record.deadline) == (None, 0)
    error = record.failed_commits["1"].error()
    assert str(error) == (
        "after 60 s diamond d has 1 done split, fewer than the 2 asked for (0 running, 1 failed: b: disk full)"
    )
    record.accept_commit(request, 2000)
    assert record.failed_commits == {}, "the same request may be tried again once it has failed"


@pytest.mark.parametrize(
    ("state", "cancel", "sentence"),
    [
        (DiamondState.COMMITTING, False, "is committing"),
        (DiamondState.DONE, False, "is done"),
        (DiamondState.INITIALIZED, True, "is canceling"),
        (DiamondState.CANCELING, True, "is canceling"),
        (DiamondState.CANCELED, True, "is canceled"),
    ],
)
def test_nothing_is_accepted_once_it_is_decided(record, state, cancel, sentence):
    done(record, "s")
    record.state = state
    record.cancel = CancelRequest("1") if cancel else None
    assert sentence in str(record.add(split("new"), "now"))
    with pytest.raises(WrongState, match=sentence):
        record.check_commit(CommitRequest("1", "m"))
    with pytest.raises(WrongState, match=sentence):
        record.check_open("no")


def test_the_second_commit_is_refused_and_the_first_known_again(record):
    done(record, "s")
    first = CommitRequest("1", "m")
    record.commit = first
    with pytest.raises(WrongState, match="another commit was first"):
        record.check_commit(CommitRequest("2", "m"))
    assert record.is_under_way(first)
    assert not record.has_answer(first)
    record.fail_commit(first, NothingToCommit("d", 0, 0, 0))
    assert record.failed_commits["1"].error().done == 0
    assert record.has_answer(first)
    assert record.commit is None
    record.check_commit(CommitRequest("2", "m"))
    record.answer = CommitAnswer("2", "b", 1, 1, 0, [])
    assert record.is_under_way(CommitRequest("2", "m"))


def test_what_a_commit_takes_and_leaves(record):
    done(record, "b", "a")
    record.add(split("c"), "now")
    start(record, "c")
    end(record, "c", SplitState.FAILED, reason="disk full")
    assert record.taken() == [TakenSplit("b", 1, 1), TakenSplit("a", 1, 2)]
    assert record.left_out() == [LeftOut("c", SplitState.FAILED, "disk full")]


def test_a_commit_that_waits_gives_way_to_one_that_does_not(record):
    done(record, "a")
    waiting = CommitRequest("1", "m", wait=True, splits=1000)
    record.accept_commit(waiting)
    with pytest.raises(WrongState, match="another commit was first"):
        record.check_commit(CommitRequest("2", "m", wait=True))
    now = CommitRequest("3", "m")
    record.check_commit(now)
    record.accept_commit(now)
    assert "did not wait was faster" in str(record.failed_commits["1"].error())
    with pytest.raises(WrongState, match="another commit was first"):
        record.check_commit(CommitRequest("4", "m"))


def test_a_superseded_run_never_counts_even_if_the_new_one_never_starts(record):
    record.add(split("s"), "now")
    row = start(record, "s")
    record.add(split("s", "2"), "later")
    row.waiting, row.state, row.reason = None, SplitState.FAILED, "left out"  # a commit came
    end(record, "s", SplitState.DONE, files=1)
    assert (row.open, row.state, row.reason) == (False, SplitState.FAILED, "left out")
    assert record.taken() == []


def test_a_diamond_can_be_full(record):
    for number in range(MAX_SPLITS):
        record.add(split(f"s{number}"), "now")
    assert "is full: it holds 2,500 splits" in str(record.add(split("one-more"), "now"))
    assert record.add(split("s1", "2"), "now") is None, "what is known may run again"


T0, T9 = "2026-11-17T20:00:00.000000000Z", "2026-11-17T20:00:09.500000000Z"


def rows(page):
    """The cells of a Markdown table, without the white space around them."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line]


def test_the_page_for_the_web_ui(record):
    done(record, "a")
    record.add(split("c", tag="node-3"), "now")
    start(record, "c")
    end(record, "c", SplitState.FAILED, reason="disk full; see --help")
    page = rows(describe(record))
    assert ["state", "**initialized**"] in page
    assert ["splits", "0 running, 1 done, 1 failed"] in page
    assert ["node-3", "`disk full; see --help`"] in page


def test_the_page_names_the_slowest_split(record):
    record.add(split("a", tag="node-1"), T0)
    record.begin(SplitId("a"), T0)
    assert ["slowest split", "node-1, running since 20:00:00 UTC"] in rows(describe(record))
    record.report(SplitReport(SplitId("a"), 1, SplitState.DONE), T9)
    assert ["slowest split", "node-1, took 9.5 s"] in rows(describe(record))


def test_the_page_tells_what_was_refused_to_those_who_got_no_answer(record):
    record.add(split("x", must_exist=True), "now")
    record.refuse_commit(CommitRequest("1"), BadUsage("a commit needs a message"))
    page = rows(describe(record))
    assert ["refused add", "`there is no split 'x'`"] in page
    assert ["refused commit", "`a commit needs a message`"] in page


def test_what_a_person_leaves_out_of_an_add_is_filled_in(record):
    ids = iter(["id-1", "id-2", "id-3", "id-4"])
    local = record.completed(AddSplit(source=Source("/data"), host="node-1"), lambda: next(ids))
    assert local == AddSplit(SplitId("id-1"), "id-2", Source("/data"), "datamon@node-1", "node-1", ADA, "node-1")
    remote = record.completed(AddSplit(source=Source("s3://bucket/data")), lambda: next(ids))
    assert remote == AddSplit(SplitId("id-3"), "id-4", Source("s3://bucket/data"), "datamon", "anywhere", ADA, "")
    whole = split("s", tag="t")
    assert record.completed(whole, lambda: next(ids)) == whole


@pytest.mark.parametrize("add", [AddSplit(source=Source("/data")), AddSplit(host="h"), AddSplit()])
def test_an_add_that_does_not_say_where_is_refused(record, add):
    assert isinstance(record.add(record.completed(add, lambda: "id"), "now"), BadUsage)


def test_a_commit_without_a_message_is_refused(record):
    done(record, "a")
    with pytest.raises(BadUsage, match="message"):
        record.check_commit(CommitRequest("1", " "))


def recounted(record):
    """A record whose index is made of its rows anew."""
    return DiamondRecord(**{field.name: getattr(record, field.name) for field in fields(record)})


def counted(record):
    index = record.index
    counts = {state: index.states[state] for state in SplitState}
    return counts, index.files, index.bytes, index.waiting, set(index.ready), set(index.open), set(index.failed)


@given(st.lists(st.tuples(st.sampled_from(["add", "begin", "done", "fail", "drop"]), st.sampled_from("abc"))))
def test_what_is_kept_up_to_date_is_what_a_recount_gives(steps):
    record = DiamondRecord(RepoName("r"), DiamondId("d"), ADA)
    for number, (step, name) in enumerate(steps):
        match step:
            case "add":
                record.add(split(name, str(number)), "now")
            case "begin" if name in record.splits and not record.splits[name].open:
                record.begin(SplitId(name))
            case "done" if name in record.splits:
                end(record, name, files=number, bytes=1)
            case "fail" if name in record.splits:
                end(record, name, SplitState.FAILED, reason="disk full")
            case "drop":
                record.drop_waiting("canceled")
        assert counted(record) == counted(recounted(record))
    packed = record.pack()
    assert (packed.splits, bool(record.splits)) == ({}, bool(record.splits))
    assert recounted(packed).splits == record.splits


def test_nothing_is_accepted_while_it_is_taken_up_again(record):
    record.recovering = True
    assert "being recovered" in str(record.add(split("s"), "now"))
    with pytest.raises(WrongState, match="try again in a moment"):
        record.check_commit(CommitRequest("1", "m"))


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300], ids=str)
def test_a_timeout_that_no_timer_takes_is_refused(seconds):
    with pytest.raises(BadUsage, match="out of bounds"):
        checked_message(CommitRequest, {"message": "m", "wait": True, "timeout_seconds": seconds})
