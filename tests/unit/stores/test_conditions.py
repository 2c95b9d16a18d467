"""A server that ignores the conditions of writes is refused before anything is written to it."""

import os
import secrets
import subprocess
import sys
from contextlib import contextmanager

import pytest

from datamon.bundles.repos import create_repo, get_repo
from datamon.core.contributors import Contributor
from datamon.core.errors import AlreadyExists, ObjectChanged, StoreRefused
from datamon.core.ids import RepoName
from datamon.stores import s3 as s3_stores
from datamon.stores.context import open_context, open_store
from datamon.stores.keys import PROBE
from tests.conftest import Command
from tests.servers import BUCKET
from tests.unit.stores.forgetful import forgetful

R, ADA = RepoName("r"), Contributor("Ada")
CHECK = 3  # writes that it takes

FORGETFUL = [
    (("If-None-Match",), "If-None-Match"),
    (("If-Match",), "If-Match"),
    (("If-None-Match", "If-Match"), "If-None-Match"),
]


@pytest.fixture
def using(s3, monkeypatch):
    """Lets clients of this process use a server that forgets some headers, as if nothing was known of it yet."""

    @contextmanager
    def use(*forgotten):
        with forgetful(s3, *forgotten) as proxy, monkeypatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
            patch.setattr(s3_stores, "_checked", set())
            s3_stores._client.cache_clear()
            yield proxy
        s3_stores._client.cache_clear()

    return use


@pytest.mark.parametrize(("forgotten", "named"), FORGETFUL)
def test_a_server_that_ignores_conditions_is_refused_at_the_first_write(using, place, forgotten, named):
    honest = open_store(place)
    honest.create("k", b"first")
    version = honest.get_versioned("k").version
    with using(*forgotten):
        store = open_store(place)
        for write in (
            lambda: store.create("k", b"second"),
            lambda: store.create("new", b"second"),
            lambda: store.replace("k", b"second", version),
            lambda: store.create("k", b"second"),
        ):
            with pytest.raises(StoreRefused) as refusal:
                write()
            assert str(refusal.value) == (
                f"the store {place} refuses: the server ignores {named}, so writers would overwrite each other; "
                "use one that honours conditions"
            )
            assert not refusal.value.retryable
        assert store.get("k") == b"first", "it can still be read"
    assert (honest.get("k"), honest.exists("new")) == (b"first", False)


def test_such_a_server_would_let_one_writer_overwrite_another(using, place):
    """So the server of these tests is what it says."""
    open_store(place).create("k", b"first")
    with using("If-None-Match", "If-Match"):
        store = open_store(place)
        for body, condition in ((b"second", {"IfNoneMatch": "*"}), (b"third", {"IfMatch": '"0"'})):
            store._put_once("k", body, condition)
            assert store.get("k") == body


@pytest.mark.parametrize(("forgotten", "named"), FORGETFUL)
def test_a_second_repo_create_cannot_overwrite_the_first(using, place, tmp_path, forgotten, named):
    context = open_context(place)
    create_repo(context, R, "the first", ADA, 0)
    with using(*forgotten) as proxy:
        with pytest.raises(StoreRefused, match=f"ignores {named},"):
            create_repo(open_context(place), R, "the second", ADA, 0)
        command = Command(tmp_path, {"DATAMON_STORE": place, "AWS_ENDPOINT_URL": proxy.endpoint})
        said = command.refused("repo", "create", "--repo", R, "--description", "the second", exit_code=6)
        assert f"the server ignores {named}, so writers would overwrite each other" in said
        assert open_context(place).metadata.get("repos/r/repo.yaml") == context.metadata.get("repos/r/repo.yaml")
    assert get_repo(context, R).description == "the first"


def test_an_honest_server_is_checked_once_for_a_process_and_bucket(using, s3, place):
    other_bucket = f"other-{secrets.token_hex(4)}"
    s3.client().create_bucket(Bucket=other_bucket)
    with using() as proxy:
        for number, url in enumerate((place, place, s3.new_place(), f"{place}/deeper"), 1):
            open_store(url).create(f"k{number}", b"")
            assert proxy.writes[BUCKET] == CHECK + number
        other = open_store(f"s3://{other_bucket}/x")
        other.create("k", b"")
        other.replace("k", b"newer", other.get_versioned("k").version)
        assert proxy.writes == {BUCKET: CHECK + 4, other_bucket: CHECK + 2}
        assert s3_stores._checked == {(os.getpid(), "", BUCKET), (os.getpid(), "", other_bucket)}
    for key in (f"x/{PROBE}", "x/k"):
        s3.client().delete_object(Bucket=other_bucket, Key=key)
    s3.client().delete_bucket(Bucket=other_bucket)


def test_another_process_checks_for_itself(using, place):
    script = (
        "import sys; from datamon.stores.context import open_store; open_store(sys.argv[1]).create(sys.argv[2], b'')"
    )
    with using() as proxy:
        open_store(place).create("ours", b"")
        assert proxy.writes[BUCKET] == CHECK + 1
        subprocess.run([sys.executable, "-c", script, place, "theirs"], check=True)
        assert proxy.writes[BUCKET] == 2 * (CHECK + 1)
    assert sorted(open_store(place).keys()) == [PROBE, "ours", "theirs"]


def test_the_object_that_is_tried_on_holds_nothing_and_stays_as_it_is(using, place):
    versions = []
    for key in "ab":
        with using():
            store = open_store(place)
            store.create(key, b"")
            versions.append(store.get_versioned(PROBE))
    assert versions[0] == versions[1]
    assert versions[0].body == b""


def test_reading_needs_no_check(using, place):
    open_store(place).create("k", b"body")
    with using("If-None-Match", "If-Match") as proxy:
        store = open_store(place)
        assert store.get("k") == b"body"
        assert (store.exists("k"), list(store.keys())) == (True, ["k"])
        store.delete("k")
        assert proxy.writes == {}


def test_a_server_that_was_refused_is_not_taken_for_an_honest_one_later(using, place):
    with using("If-Match") as proxy:
        store = open_store(place)
        for _ in range(2):
            with pytest.raises(StoreRefused):
                store.create("k", b"")
        proxy.forgotten.clear()
        store.create("k", b"1")
        with pytest.raises(AlreadyExists):
            store.create("k", b"2")
        with pytest.raises(ObjectChanged):
            store.replace("k", b"2", '"0"')
