"""The S3 store when the server or the network misbehaves. Every request goes to a real server, through a bad line."""

import pytest
from botocore.exceptions import ClientError

from datamon.core.errors import AlreadyExists, ObjectChanged, StoreRefused, StoreUnreachable
from datamon.stores import s3
from datamon.stores.context import open_context, open_store
from tests.faults.s3 import BUSY, CUT, LOST, SHORT, faulty


@pytest.fixture
def line(s3, monkeypatch):
    """A bad line to the S3 server, and clients that use it."""
    with faulty(s3) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        forget_clients()
        yield proxy
    monkeypatch.undo()
    forget_clients()


def forget_clients():
    s3._client.cache_clear()


@pytest.fixture
def store(line, place):
    return open_store(place)


def test_a_server_that_is_busy_is_asked_again(line, store):
    line.plan = {"PUT": [BUSY, BUSY], "GET": [BUSY], "HEAD": [BUSY]}
    store.create("k", b"body")
    assert store.exists("k")
    assert store.get("k") == b"body"
    assert line.seen["PUT"] == 3


def test_a_write_whose_answer_was_lost_is_known_to_be_ours(line, store):
    line.plan = {"PUT": [LOST]}
    store.create("k", b"body")
    assert line.seen["PUT"] == 2, "the second one was refused, for the first got through"
    version = store.get_versioned("k").version
    line.plan = {"PUT": [LOST]}
    store.replace("k", b"newer", version)
    assert store.get("k") == b"newer"


def test_a_lost_answer_does_not_make_somebody_elses_object_ours(line, store):
    store.create("k", b"theirs")
    version = store.get_versioned("k").version
    store.replace("k", b"theirs too", version)
    line.plan = {"PUT": [BUSY, BUSY]}
    with pytest.raises(AlreadyExists):
        store.create("k", b"ours")
    with pytest.raises(ObjectChanged):
        store.replace("k", b"ours", version)
    assert store.get("k") == b"theirs too"


@pytest.mark.parametrize("fault", [CUT, SHORT])
def test_a_body_that_is_not_whole_is_read_again_from_the_start(line, store, fault):
    body = bytes(range(256)) * 1000
    store.create("k", body)
    etag = store.head("k").etag
    for read, wanted in (
        (lambda: store.get("k"), body),
        (lambda: store.get("k", 100, 1000), body[100:1100]),
        (lambda: store.get("k", 100), body[100:]),
        (lambda: store.get("k", 255_900, 1000), body[255_900:]),
        (lambda: store.get_if("k", etag, 0, len(body)), body),
        (lambda: store.get_versioned("k").body, body),
    ):
        line.plan = {"GET": [fault, fault]}
        assert read() == wanted
    line.plan = {"GET": [fault]}
    assert list(store.keys()) == ["k"]


def test_a_server_that_stays_busy_is_a_store_that_may_come_back(line, store):
    line.plan = {"DELETE": [BUSY] * s3.ATTEMPTS}
    with pytest.raises(StoreUnreachable, match="slow down") as refusal:
        store.delete("k")
    assert refusal.value.retryable


def test_a_large_object_goes_up_in_pieces_and_only_once(line, store):
    body = bytes(s3.MULTIPART_BYTES) + b"end"
    line.plan = {"PUT": [BUSY, LOST]}
    store.create("large", body)
    assert line.seen["PUT"] == 5 + 2
    assert store.get("large") == body
    with pytest.raises(AlreadyExists):
        store.create("large", bytes(len(body)))
    store.replace("large", bytes(len(body)), store.get_versioned("large").version)
    pending = store.client.list_multipart_uploads(Bucket=store.bucket, Prefix=store.prefix)
    assert pending.get("Uploads", []) == [], "what was refused is not left lying about"


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "refuses: .*signature"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "refuses: .*(access key|does not exist)"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no AWS credentials"),
    ],
)
def test_a_refusal_is_final_and_tells_no_secret(line, store, monkeypatch, environment, why):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    with pytest.raises(StoreRefused, match=f"(?i){why}") as refusal:
        store.get("k")
    assert not refusal.value.retryable
    assert "wrong-secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("AWS_PROFILE", "no-such-profile", "no-such-profile"), ("AWS_ENDPOINT_URL", "localhost:8333", "Invalid endpoint")],
)
def test_a_configuration_that_cannot_be_used_is_a_sentence(line, store, monkeypatch, name, value, why):
    monkeypatch.setenv(name, value)
    forget_clients()
    with pytest.raises(StoreRefused, match=why):
        store.get("k")


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [(400, "BadDigest", True), (400, "IncompleteBody", True), (501, "NotImplemented", False), (301, "Moved", False)],
)
def test_which_answers_may_change(store, status, code, retryable):
    error = ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")
    assert store._meaning("k", error).retryable is retryable


def test_a_bucket_that_is_not_there(line):
    with pytest.raises(StoreRefused, match="no bucket 'nowhere'"):
        open_store("s3://nowhere/x").get("k")


def test_a_server_that_is_not_there(line, place, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget_clients()
    with pytest.raises(StoreUnreachable, match="no answer from http://127"):
        open_store(place).exists("k")


def test_the_three_stores_of_a_context(place):
    context = open_context(f"{place}/")
    assert [store.url for store in (context.blob, context.metadata, context.vmetadata)] == [
        f"{place}/{name}" for name in ("blob", "metadata", "vmetadata")
    ]
