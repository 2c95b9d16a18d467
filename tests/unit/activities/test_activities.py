"""Activities called directly, as Temporal would call them again: late, twice, or with data that is wrong."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from datamon.activities.commit import CommitActivities, MakeBundle
from datamon.activities.failures import from_failure, to_failure
from datamon.activities.metadata import FinishSplit, MetadataActivities
from datamon.activities.recovery import RecoveryActivities, TakeUp
from datamon.activities.upload import UploadActivities, UploadSplit
from datamon.bundles.catalog import list_bundles
from datamon.bundles.model import TakenSplit
from datamon.bundles.repos import create_repo
from datamon.core.contributors import Contributor
from datamon.core.errors import (
    AlreadyExists,
    ConflictsForbidden,
    Failed,
    ObjectChanged,
    SourceMissing,
    StaleWrite,
    StoreUnreachable,
)
from datamon.core.ids import BundleId, DiamondId, RepoName, SplitId
from datamon.diamonds.catalog import (
    get_diamond,
    get_split,
    list_diamonds,
    open_diamond,
    publish_diamond,
    revise_split,
    take_up,
)
from datamon.diamonds.model import Diamond, DiamondState, Split, SplitState
from datamon.merge.modes import ConflictMode, Order
from datamon.sources.source import Source
from datamon.stores import keys
from datamon.stores.context import open_context

R, D, S, ADA = RepoName("r"), DiamondId("d"), SplitId("s"), Contributor("Ada")


@pytest.fixture
def context(tmp_path):
    context = open_context(str(tmp_path / "store"))
    create_repo(context, R, "", ADA, 0)
    open_diamond(context, diamond(D))
    return context


def diamond(name, created="c", **more):
    fields = {"state": DiamondState.INITIALIZED, "contributor": ADA, "updated": "u", "revision": 1}
    return Diamond(id=DiamondId(name), repo=R, created=created, **(fields | more))


def split(generation=1, **more):
    fields = {"state": SplitState.RUNNING, "revision": 1, "tag": "", "host": "h", "source": "/", "created": "c"}
    fields["started"] = "s"
    return Split(id=S, diamond=D, repo=R, generation=generation, contributor=ADA, **(fields | more))


def finish(generation=1, state=SplitState.DONE, ended="e", reason=""):
    return FinishSplit(R, D, S, generation, state, ended, reason)


def run(activity, request):
    """Run an activity; what it raises comes back as the DatamonError that a client would see."""
    try:
        return ActivityEnvironment().run(activity, request)
    except ApplicationError as error:
        if not error.non_retryable:
            raise
        raise from_failure(error) from error


def published(context):
    return get_split(context, R, D, S)


def test_every_publication_can_be_repeated(context):
    metadata = MetadataActivities(context)
    for _ in range(2):
        run(metadata.start_split, split())
    for _ in range(2):
        run(metadata.finish_split, finish(state=SplitState.FAILED, reason="why"))
    assert (published(context).state, published(context).revision, published(context).reason) == ("failed", 2, "why")


def test_what_comes_late_changes_nothing(context):
    metadata = MetadataActivities(context)
    run(metadata.start_split, split(1))
    run(metadata.start_split, split(2))
    for late in (lambda: run(metadata.start_split, split(1)), lambda: run(metadata.finish_split, finish(1))):
        with pytest.raises(StaleWrite):
            late()
    assert (published(context).generation, published(context).state) == (2, SplitState.RUNNING)


def test_a_split_of_before_its_diamond_was_recovered_publishes_nothing(context):
    metadata = MetadataActivities(context)
    run(metadata.start_split, split())
    taken = take_up(context, get_diamond(context, R, D), "epoch", "now")
    assert take_up(context, taken, "epoch", "later") == taken
    for late in (lambda: run(metadata.start_split, split(2)), lambda: run(metadata.finish_split, finish())):
        with pytest.raises(StaleWrite):
            late()
    assert (published(context).generation, published(context).state) == (1, SplitState.RUNNING)
    run(metadata.start_split, split(2, epoch="epoch"))
    assert published(context).generation == 2


def test_a_diamond_that_was_removed_is_not_published_again(context):
    context.vmetadata.delete(keys.diamond(R, D))
    with pytest.raises(StaleWrite):
        run(MetadataActivities(context).publish_diamond, diamond(D, revision=7))
    assert list(list_diamonds(context, R)) == []


def test_a_recovery_that_wakes_up_late_stops_nothing_that_was_started_after_it(context):
    recovery = RecoveryActivities(context)
    run(MetadataActivities(context).start_split, split(started="2026-01-01", position=1))
    request = TakeUp(R, D, "2026-01-02", "why", "epoch")
    [stopped] = run(recovery.take_up, request).splits
    assert (stopped.state, stopped.stopped) == (SplitState.FAILED, True)
    assert [one.stopped for one in run(recovery.take_up, request).splits] == [True], "the same again"
    run(MetadataActivities(context).start_split, split(2, started="2026-01-03", epoch="epoch"))
    with pytest.raises(StaleWrite):
        run(recovery.take_up, request)
    assert published(context).state is SplitState.RUNNING


def test_a_recovery_that_wakes_up_late_does_not_touch_the_commit_that_came_after_it(context):
    request = TakeUp(R, D, "2026-01-02", "why", "epoch")
    taken_up = run(RecoveryActivities(context).take_up, request).diamond
    making = replace(taken_up, state=DiamondState.COMMITTING, making=BundleId("b"), revision=3, updated="2026-01-03")
    publish_diamond(context, making)
    with pytest.raises(StaleWrite):
        run(RecoveryActivities(context).take_up, request)
    assert not context.metadata.exists(keys.bundle(R, BundleId("b")))


def test_a_damaged_split_does_not_keep_its_diamond_from_being_recovered(context):
    context.vmetadata.create(keys.split(R, D, S), b"version: 99")
    [damaged] = run(RecoveryActivities(context).take_up, TakeUp(R, D, "now", "why", "epoch")).splits
    assert (damaged.state, "version" in damaged.reason) == (SplitState.FAILED, True)


def test_a_new_generation_scratches_the_lists_of_older_ones_only(context):
    """Also when it wakes up after a newer one has come."""
    lists = {
        g: keys.uploaded_list(keys.split_folder(R, D, S), keys.upload_index(g, "aaaaaaaa", 0)) for g in (1, 2, 3, 10)
    }
    for key in lists.values():
        context.vmetadata.create(key, b"")
    run(MetadataActivities(context).start_split, split(2))
    assert [g for g, key in lists.items() if context.vmetadata.exists(key)] == [2, 3, 10]


def test_a_diamond_is_opened_once_and_by_one(context):
    metadata = MetadataActivities(context)

    def attempt(number):
        try:
            run(metadata.open_diamond, diamond("new", f"c{number}"))
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    run(metadata.open_diamond, get_diamond(context, R, DiamondId("new")))


def test_data_that_cannot_be_written_is_no_reason_to_try_for_ever(context):
    with pytest.raises(Failed, match="this is a bug: UnicodeEncodeError"):
        run(MetadataActivities(context).start_split, split(tag="\udce9"))


def test_what_can_pass_is_retried():
    assert not to_failure(StoreUnreachable("s", "full")).non_retryable
    assert not to_failure(ObjectChanged("k")).non_retryable
    assert to_failure(SourceMissing("p")).non_retryable


def upload(context, spark, path, generation=1):
    request = UploadSplit(R, D, S, generation, Source(str(path)))
    return run(UploadActivities(context, spark.context).upload_split, request)


def test_an_upload_can_be_repeated_and_a_dead_one_cannot_publish(context, spark, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_text("x")
    metadata = MetadataActivities(context)
    run(metadata.start_split, split(1))
    first = upload(context, spark, tmp_path / "source")
    again = upload(context, spark, tmp_path / "source")
    assert (first.files, first.stored, again.files, again.stored) == (1, 1, 1, 0)
    run(metadata.finish_split, finish())
    with pytest.raises(StaleWrite):
        upload(context, spark, tmp_path / "source")
    assert published(context).state is SplitState.DONE


def make(context, spark, bundle="b", mode=ConflictMode.KEEP):
    request = MakeBundle(R, D, BundleId(bundle), "m", "c", mode, Order.UPLOADED, [TakenSplit(S, 1, 1)], [])
    return run(CommitActivities(context, spark.context).make_bundle, request)


def done_split(context, spark, tmp_path):
    (tmp_path / "source").mkdir()
    for number in range(5):
        (tmp_path / "source" / f"{number}").write_text(f"{number}")
    run(MetadataActivities(context).start_split, split(1))
    upload(context, spark, tmp_path / "source")
    run(MetadataActivities(context).finish_split, finish())


def bundle_and_lists(context):
    """All that commits have written."""
    return {key: context.metadata.get(key) for top in (keys.bundles(R), "lists/") for key in context.metadata.keys(top)}


def test_a_bundle_that_was_made_before_is_only_reported_again(context, spark, tmp_path):
    done_split(context, spark, tmp_path)
    first = make(context, spark)
    context.vmetadata.delete(keys.split(R, D, S))  # so that it could not be made again
    assert make(context, spark) == first
    assert [bundle.files for bundle in list_bundles(context, R)] == [5]


def test_a_merge_that_was_cut_off_is_made_again_with_the_same_lists(context, spark, tmp_path):
    done_split(context, spark, tmp_path)
    make(context, spark)
    before = bundle_and_lists(context)
    assert len(before) == 2
    context.metadata.delete(keys.bundle(R, BundleId("b")))
    make(context, spark)
    assert bundle_and_lists(context) == before


def test_a_forbidden_conflict_leaves_nothing_behind(context, spark, tmp_path):
    done_split(context, spark, tmp_path)
    other = SplitId("t")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "0").write_text("differs")
    metadata = MetadataActivities(context)
    run(metadata.start_split, Split(**{**{f: getattr(split(), f) for f in split().__slots__}, "id": other}))
    run(
        UploadActivities(context, spark.context).upload_split,
        UploadSplit(R, D, other, 1, Source(str(tmp_path / "other"))),
    )
    run(metadata.finish_split, FinishSplit(R, D, other, 1, SplitState.DONE, "e"))
    taken = [TakenSplit(S, 1, 1), TakenSplit(other, 1, 2)]
    request = MakeBundle(R, D, BundleId("b"), "m", "c", ConflictMode.FORBID, Order.UPLOADED, taken, [])
    with pytest.raises(ConflictsForbidden, match=r"'0' \(splits s, t\)"):
        run(CommitActivities(context, spark.context).make_bundle, request)
    assert bundle_and_lists(context) == {}


def test_a_jvm_that_was_killed_is_started_again(context, spark, tmp_path):
    """The attempt that finds it dead may fail; the next one must not."""
    done_split(context, spark, tmp_path)
    spark._gateway.proc.kill()
    spark._gateway.proc.wait()
    assert make(context, spark).files == 5


def test_what_a_split_has_stored_counts_over_its_generations(context):
    metadata = MetadataActivities(context)
    run(metadata.start_split, split())
    key = keys.split(R, D, S)
    revise_split(context.vmetadata, key, 1, lambda one: replace(one, stored=700))
    run(metadata.start_split, split(2))
    assert published(context).stored == 700
    run(metadata.start_split, split(2))
    assert published(context).stored == 700, "a second attempt to start it changes nothing"
