"""Cutting by content: a change costs the chunks around it, and nothing else."""

import random

import pytest
from blake3 import blake3

from datamon.content.chunking import AVERAGE_CHUNK, MAX_CHUNK, MIN_CHUNK, cut

DATA = random.Random(7).randbytes(48 << 20)
MIDDLE = len(DATA) // 2
MIB = 1 << 20
CUTS = [831478, 1208510, 455785, 1385890, 422568, 3034006, 482223, 568148]


def digests(data):
    return {blake3(chunk).hexdigest(): len(chunk) for chunk in cut([data])}


def new_bytes(changed):
    known = digests(DATA)
    return sum(size for digest, size in digests(changed).items() if digest not in known)


@pytest.mark.parametrize(
    ("changed", "most"),
    [
        pytest.param(random.Random(1).randbytes(MIB) + DATA, 5 * MIB, id="insertion at the front"),
        pytest.param(DATA[:MIDDLE] + b"x" + DATA[MIDDLE:], 5 * MIB, id="insertion of a byte"),
        pytest.param(DATA[:MIDDLE] + DATA[MIDDLE + 100_000 :], 5 * MIB, id="deletion"),
        pytest.param(DATA + b"more" * 1000, 5 * MIB, id="append"),
        pytest.param(DATA[: 8 * MIB] + DATA[32 * MIB :] + DATA[8 * MIB : 32 * MIB], 12 * MIB, id="a moved block"),
        pytest.param(DATA[:MIDDLE] + b"y" + DATA[MIDDLE + 1 :], 5 * MIB, id="a changed byte"),
    ],
)
def test_a_change_costs_only_what_is_near(changed, most):
    assert new_bytes(changed) < most


@pytest.mark.parametrize("piece", [1 << 20, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, 7_654_321, len(DATA)])
def test_how_the_bytes_come_does_not_matter(piece):
    pieces = [DATA[start : start + piece] for start in range(0, len(DATA), piece)]
    assert list(cut(pieces)) == list(cut([DATA]))


@pytest.mark.parametrize("data", [DATA, bytes(20 << 20), b"x", b"", DATA[:MIN_CHUNK], DATA[: MAX_CHUNK + 1]])
def test_chunks_have_the_sizes_that_were_promised_and_add_up(data):
    chunks = list(cut([data]))
    assert b"".join(chunks) == data
    assert all(MIN_CHUNK <= len(chunk) <= MAX_CHUNK for chunk in chunks[:-1])
    assert all(chunks)


def test_cuts_are_the_same_for_ever():
    """If this fails, a new version of the library cuts differently, and every large file would be stored once more."""
    sizes = [len(chunk) for chunk in cut([random.Random(11).randbytes(8 << 20)])]
    assert sizes == CUTS
    assert AVERAGE_CHUNK / 2 < sum(sizes) / len(sizes) < 2 * AVERAGE_CHUNK
