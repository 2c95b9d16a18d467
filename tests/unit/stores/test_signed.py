"""Signed requests, made by somebody who has no credentials and only Python's own library."""

import base64
import hashlib
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from datamon.stores.context import open_store

BODY = b"0123456789"
SECONDS = 60


@pytest.fixture
def store(place):
    return open_store(f"{place}/some/prefix")


def send(url, headers, body=None, method="PUT"):
    """The status and body of the answer."""
    try:
        with urlopen(Request(url, body, headers, method=method), timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def sha256(body):
    return hashlib.sha256(body).hexdigest()


def checksum(body):
    """A SHA-256 as S3 writes it into a header."""
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def sign_create(store, key="new", seconds=SECONDS, body=BODY):
    return store.sign_create(key, seconds, len(body), sha256(body))


def without(headers, name):
    assert name in headers
    return {key: value for key, value in headers.items() if key != name}


@pytest.mark.parametrize("key", ["k", "a/b c/é+%&?#.txt"])
def test_whoever_has_a_signed_url_can_get_that_object(store, key):
    store.create(key, BODY)
    signed = store.sign_get(key, SECONDS)
    assert send(signed.url, signed.headers, method="GET") == (200, BODY)
    assert send(signed.url, {**signed.headers, "Range": "bytes=2-4"}, method="GET") == (206, b"234")


def test_a_signed_get_is_good_for_nothing_else(store):
    store.create("k", BODY)
    store.create("other", b"not for you")
    signed = store.sign_get("k", SECONDS)
    assert send(signed.url.replace("/k?", "/other?"), {}, method="GET")[0] == 403
    assert send(signed.url.partition("?")[0], {}, method="GET")[0] == 403, "without the signature"
    assert send(signed.url, {}, b"overwritten")[0] == 403
    assert send(signed.url, {}, method="DELETE")[0] == 403
    assert store.get("k") == BODY


def test_a_signed_get_expires(store):
    store.create("k", BODY)
    signed = store.sign_get("k", 1)
    time.sleep(2.5)
    assert send(signed.url, {}, method="GET")[0] == 403


def test_a_signed_get_of_what_is_not_there(store):
    assert send(store.sign_get("nothing", SECONDS).url, {}, method="GET")[0] == 404


@pytest.mark.parametrize("key", ["new", "a/b c/é+%&.txt"])
@pytest.mark.parametrize("body", [BODY, b"", bytes(1 << 20)], ids=["some", "none", "a MiB"])
def test_whoever_has_a_signed_create_can_put_that_very_object(store, key, body):
    signed = sign_create(store, key, body=body)
    assert send(signed.url, signed.headers, body)[0] == 200
    assert store.get(key) == body


@pytest.mark.parametrize("body", [BODY + b"x", BODY[:-1], b""], ids=["longer", "shorter", "none"])
def test_another_length_is_refused(store, body):
    signed = sign_create(store)
    assert send(signed.url, {**signed.headers, "Content-Length": str(len(body))}, body)[0] == 403
    honest_checksum = {"Content-Length": str(len(body)), "x-amz-checksum-sha256": checksum(body)}
    assert send(signed.url, {**signed.headers, **honest_checksum}, body)[0] == 403
    assert not store.exists("new")


def test_another_content_of_the_same_length_is_refused(store):
    signed, other = sign_create(store), b"x" * len(BODY)
    assert send(signed.url, signed.headers, other)[0] == 400
    assert send(signed.url, {**signed.headers, "x-amz-checksum-sha256": checksum(other)}, other)[0] == 403
    assert send(signed.url, without(signed.headers, "x-amz-checksum-sha256"), other)[0] == 403
    assert not store.exists("new")


def test_another_key_is_refused(store):
    signed = sign_create(store)
    assert send(signed.url.replace("/new?", "/other?"), signed.headers, BODY)[0] == 403
    assert list(store.keys()) == []


def test_an_object_that_exists_is_not_put_again(store):
    store.create("new", b"the first")
    signed = sign_create(store)
    assert send(signed.url, signed.headers, BODY)[0] == 412
    assert send(signed.url, without(signed.headers, "If-None-Match"), BODY)[0] == 403
    assert send(signed.url, {**signed.headers, "If-None-Match": '"another"'}, BODY)[0] == 403
    assert store.get("new") == b"the first"


def test_a_signed_create_can_be_used_once(store):
    signed = sign_create(store)
    assert [send(signed.url, signed.headers, BODY)[0] for _ in range(2)] == [200, 412]


def test_a_signed_create_expires(store):
    signed = sign_create(store, seconds=1)
    time.sleep(2.5)
    assert send(signed.url, signed.headers, BODY)[0] == 403
    assert not store.exists("new")


def test_a_signed_create_does_not_read(store):
    store.create("new", BODY)
    assert send(sign_create(store).url, {}, method="GET")[0] == 403
