"""Housekeeping that breaks off, is taken up again, or may not do what it wants."""

import json
from dataclasses import asdict, replace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from datamon.activities.failures import from_failure
from datamon.activities.housekeeping import CleanRepo, HousekeepingActivities
from datamon.bundles.repos import create_repo
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, StoreRefused
from datamon.core.ids import DiamondId, RepoName, SplitId
from datamon.diamonds.catalog import list_diamonds, open_diamond, reserve_id
from datamon.diamonds.findings import Limits
from datamon.diamonds.model import Diamond, DiamondState
from datamon.diamonds.retention import remove
from datamon.settings.settings import Settings
from datamon.stores import descriptors, keys
from datamon.stores.context import open_context

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


def list_key(diamond, number=0):
    return keys.uploaded_list(keys.split_folder(R, diamond, SplitId("s")), f"g1-0-{number}")


def put(context, diamond, objects=3):
    context.vmetadata.create(keys.diamond(R, diamond.id), descriptors.dump(diamond))
    for number in range(objects):
        context.vmetadata.create(list_key(diamond.id, number), b"")


@pytest.fixture
def context(tmp_path):
    context = open_context(str(tmp_path / "store"))
    create_repo(context, R, "", ADA, 0)
    return context


def tidy(context, environment=None, **more):
    return (environment or ActivityEnvironment()).run(
        HousekeepingActivities(context).clean_repo, CleanRepo(R, LIMITS, **more)
    )


def test_a_round_that_broke_off_is_taken_up_by_the_next(context):
    """It ended in the middle of the second diamond. What is left of that one still says what it is."""
    for name in "abc":
        put(context, canceled(name))
    first = tidy(context, dry_run=True)
    heartbeat = asdict(replace(first, removed=1, findings=first.findings[:1], after="a"))
    remove(context, first.findings[0])
    context.vmetadata.delete(next(key for key in context.vmetadata.keys(keys.diamond_folder(R, "b")) if "g1" in key))
    assert [diamond.id for diamond in list_diamonds(context, R)] == ["b", "c"]

    attempt = ActivityEnvironment()
    attempt.info = replace(attempt.info, heartbeat_details=[json.loads(json.dumps(heartbeat))], attempt=2)
    report = tidy(context, attempt)
    assert (report.removed, [finding.diamond for finding in report.findings]) == (3, ["a", "b", "c"])
    assert list(context.vmetadata.keys(keys.diamonds(R))) == []
    assert tidy(context).removed == 0


def test_the_id_of_a_diamond_that_was_removed_stays_taken(context):
    open_diamond(context, canceled("old"))
    assert tidy(context).removed == 1
    with pytest.raises(AlreadyExists, match="diamond 'old' already exists"):
        open_diamond(context, canceled("old", created=NEW))


def test_what_an_upload_wrote_after_its_diamond_was_removed_goes_too(context):
    reserve_id(context, canceled("gone"))
    late = list_key(DiamondId("gone"))
    context.vmetadata.create(late, b"")
    unknown = list_key(DiamondId("unknown"))
    context.vmetadata.create(unknown, b"")
    report = tidy(context)
    assert {finding.diamond: finding.verdict for finding in report.findings} == {"gone": "remove", "unknown": "keep"}
    assert list(context.vmetadata.keys(keys.diamonds(R))) == [unknown]


def test_a_diamond_that_cannot_be_read_is_kept(context):
    context.vmetadata.create(keys.diamond(R, DiamondId("odd")), b"version: 99\n")
    [finding] = tidy(context).findings
    assert finding.verdict == "keep"
    assert "version" in finding.note


def test_housekeeping_has_credentials_of_its_own(s3, place, tmp_path):
    """Workers may only read here. The profile of housekeeping may do more, and its secret is in no error."""
    context = open_context(place)
    create_repo(context, R, "", ADA, 0)
    put(context, canceled("done"))
    profiles = tmp_path / "credentials"
    profiles.write_text(
        f"[housekeeping]\naws_access_key_id = {s3.access_key}\naws_secret_access_key = {s3.secret_key}\n"
        f"[nobody]\naws_access_key_id = nobody\naws_secret_access_key = very-secret\n"
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
        for profile in ("nobody", "unheard-of"):
            settings = Settings.load({"DATAMON_STORE": place, "DATAMON_HOUSEKEEPING_PROFILE": profile})
            housekeeping = HousekeepingActivities(settings.housekeeping_context())
            with pytest.raises(ApplicationError) as never:
                ActivityEnvironment().run(housekeeping.list_repos, "")
            assert never.value.non_retryable, "else the round would wait for ever"
            with pytest.raises(ApplicationError) as refused:
                tidy(settings.housekeeping_context())
            assert isinstance(from_failure(refused.value), StoreRefused)
            assert "very-secret" not in json.dumps([str(refused.value), *map(str, refused.value.details)])
        settings = Settings.load({"DATAMON_STORE": place, "DATAMON_HOUSEKEEPING_PROFILE": "housekeeping"})
        assert tidy(settings.housekeeping_context()).removed == 1
    assert list(context.vmetadata.keys(keys.diamonds(R))) == []
