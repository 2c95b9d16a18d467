"""Housekeeping that breaks off, is taken up again, or may not do what it wants."""

import json
from dataclasses import asdict, replace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.housekeeping import HousekeepingActivities, TidyRepo
from activities.wire import from_wire
from datamon import catalog, descriptors, keys
from datamon.errors import AlreadyExists, StoreRefused
from datamon.housekeeping import Limits, remove
from datamon.ids import DiamondId, RepoName, SplitId
from datamon.model import Contributor, Diamond, DiamondState
from datamon.settings import Settings
from datamon.stores import open_context

R, ADA = RepoName("r"), Contributor("Ada")
OLD, NEW = "2026-01-01T00:00:00.000000000Z", "2026-03-01T00:00:00.000000000Z"
LIMITS = Limits("2026-02-01T00:00:00.000000000Z", "2026-02-01T00:00:00.000000000Z")


def canceled(name, ended=OLD, created=OLD):
    return Diamond(
        id=DiamondId(name),
        repo=R,
        state=DiamondState.CANCELED,
        contributor=ADA,
        created=created,
        updated=ended,
        ended=ended,
        revision=2,
    )


def put(context, diamond, objects=3):
    context.vmetadata.create(keys.diamond(R, diamond.id), descriptors.dump(diamond))
    for number in range(objects):
        context.vmetadata.create(keys.split_files(R, diamond.id, SplitId("s"), f"g1-0-{number}"), b"")


@pytest.fixture
def context(tmp_path):
    context = open_context(str(tmp_path / "store"))
    catalog.create_repo(context, R, "", ADA, 0)
    return context


def tidy(context, environment=None, **more):
    return (environment or ActivityEnvironment()).run(
        HousekeepingActivities(context).tidy_repo, TidyRepo(R, LIMITS, **more)
    )


def test_a_round_that_broke_off_is_taken_up_by_the_next(context):
    """It ended in the middle of the second diamond. What is left of that one still says what it is."""
    for name in "abc":
        put(context, canceled(name))
    first = tidy(context, dry_run=True)
    told = asdict(replace(first, removed=1, findings=first.findings[:1], after="a"))
    remove(context, first.findings[0])
    context.vmetadata.delete(next(key for key in context.vmetadata.keys(keys.diamond_folder(R, "b")) if "g1" in key))
    assert [found.id for found in catalog.diamonds(context, R)] == ["b", "c"]

    attempt = ActivityEnvironment()
    attempt.info = replace(attempt.info, heartbeat_details=[json.loads(json.dumps(told))], attempt=2)
    report = tidy(context, attempt)
    assert (report.removed, [finding.diamond for finding in report.findings]) == (3, ["a", "b", "c"])
    assert list(context.vmetadata.keys(keys.diamonds(R))) == []
    assert tidy(context).removed == 0


def test_ids_from_before_they_were_recorded_are_recorded_now(context):
    put(context, canceled("old"))
    tidy(context)
    with pytest.raises(AlreadyExists, match="diamond 'old' already exists"):
        catalog.open_diamond(context, canceled("old", created=NEW))


def test_what_an_upload_wrote_after_its_diamond_was_removed_goes_too(context):
    catalog.give_id(context, canceled("gone"))
    late = keys.split_files(R, DiamondId("gone"), SplitId("s"), "g1-0-0")
    context.vmetadata.create(late, b"")
    unknown = keys.split_files(R, DiamondId("unknown"), SplitId("s"), "g1-0-0")
    context.vmetadata.create(unknown, b"")
    report = tidy(context)
    assert {finding.diamond: finding.verdict for finding in report.findings} == {"gone": "remove", "unknown": "keep"}
    assert list(context.vmetadata.keys(keys.diamonds(R))) == [unknown]


def test_a_diamond_that_cannot_be_read_is_kept(context):
    context.vmetadata.create(keys.diamond(R, DiamondId("odd")), b"version: 99\n")
    [finding] = tidy(context).findings
    assert finding.verdict == "keep"
    assert "version" in finding.note


def test_the_janitor_has_credentials_of_its_own(s3, place, tmp_path):
    """Workers may only read here. The janitor's profile may do more, and its secret is in no error."""
    context = open_context(place)
    catalog.create_repo(context, R, "", ADA, 0)
    put(context, canceled("done"))
    profiles = tmp_path / "credentials"
    profiles.write_text(
        f"[janitor]\naws_access_key_id = {s3.access_key}\naws_secret_access_key = {s3.secret_key}\n"
        f"[nobody]\naws_access_key_id = nobody\naws_secret_access_key = very-secret\n"
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
        for profile in ("nobody", "unheard-of"):
            settings = Settings.load({"DATAMON_STORE": place, "DATAMON_JANITOR_PROFILE": profile})
            janitor = HousekeepingActivities(settings.janitor_context())
            with pytest.raises(ApplicationError) as never:
                ActivityEnvironment().run(janitor.list_repos, "")
            assert never.value.non_retryable, "else the round would wait for ever"
            with pytest.raises(ApplicationError) as refused:
                tidy(settings.janitor_context())
            assert isinstance(from_wire(refused.value), StoreRefused)
            assert "very-secret" not in json.dumps([str(refused.value), *map(str, refused.value.details)])
        settings = Settings.load({"DATAMON_STORE": place, "DATAMON_JANITOR_PROFILE": "janitor"})
        assert tidy(settings.janitor_context()).removed == 1
    assert list(context.vmetadata.keys(keys.diamonds(R))) == []
