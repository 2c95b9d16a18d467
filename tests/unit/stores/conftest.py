"""The bucket of these tests."""

import pytest

from datamon.stores.context import open_store


@pytest.fixture(scope="session")
def checked_bucket(s3):
    """It is known to honour conditions, so that no test sees the requests and the object of the check."""
    open_store(s3.new_place()).create("any", b"")


@pytest.fixture
def place(checked_bucket, place):
    return place
