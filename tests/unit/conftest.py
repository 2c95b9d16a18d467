"""What several of these files look at."""

import random

import pytest

from datamon.content.entry import SMALL_BYTES
from datamon.stores.context import open_context
from tests.bundles import uploaded


@pytest.fixture
def context(tmp_path):
    return open_context(str(tmp_path / "store"))


@pytest.fixture
def bundle(context, tmp_path):
    """A bundle with small, empty and large files, made of one split's lists."""
    rng = random.Random(3)
    files = {"a/small": b"small", "a/empty": b"", "large": rng.randbytes(SMALL_BYTES + 1), "z": b"last"}
    for name, data in files.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return uploaded(context, tmp_path / "source")
