"""Compression: what is worth it, and what a reader refuses."""

import random

import pytest
import zstandard

from datamon.content.compression import MAGIC, OFF, CannotDecompress, Compressor, decompress, read_chunk

TEXT = b"2026-11-19,weather,14.2\n" * 5000
NOISE = random.Random(1).randbytes(100_000)
MOST = 1 << 20


def test_what_shrinks_comes_back_and_what_does_not_is_left_as_it_is():
    frame = Compressor().compress(TEXT)
    assert len(frame) < len(TEXT) / 50
    assert decompress(frame, MOST) == TEXT
    assert Compressor().compress(NOISE) is None
    assert Compressor(OFF).compress(TEXT) is None


def test_what_shrinks_by_less_than_a_twentieth_is_not_worth_it():
    assert Compressor().compress(NOISE + bytes(len(NOISE) // 25)) is None
    assert Compressor().compress(NOISE + bytes(len(NOISE) // 15)) is not None


def test_any_zstd_reads_a_frame():
    assert zstandard.ZstdDecompressor().decompress(Compressor().compress(TEXT)) == TEXT


@pytest.mark.parametrize("level", [OFF, 1, 3, 19])
@pytest.mark.parametrize("data", [TEXT, NOISE, MAGIC, MAGIC + NOISE, zstandard.compress(TEXT)])
def test_a_chunk_comes_back_whatever_is_in_it(data, level):
    """Also one that looks like a frame itself: a file that the user has compressed."""
    stored = Compressor(level).chunk(data)
    assert read_chunk(stored, len(data)) == data
    assert stored == data or stored.startswith(MAGIC)


def said_size(size, data=TEXT):
    """A frame of some data that says it holds so many bytes."""
    frame = bytearray(zstandard.ZstdCompressor(write_content_size=True).compress(data))
    assert frame[4] >> 6 == 2, "the size has four bytes"
    at = 5 if frame[4] & 0x20 else 6
    frame[at : at + 4] = size.to_bytes(4, "little")
    return bytes(frame)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        pytest.param(Compressor().compress(bytes(64 << 20)), "says that it holds 67,108,864 bytes", id="a zip bomb"),
        pytest.param(said_size(len(TEXT) - 1), "cannot be decompressed", id="holds more than it says"),
        pytest.param(said_size(len(TEXT) + 1), "cannot be decompressed", id="holds less than it says"),
        pytest.param(Compressor().compress(TEXT) + b"x", "cannot be decompressed", id="bytes behind it"),
        pytest.param(Compressor().compress(TEXT) * 2, "cannot be decompressed", id="another frame behind it"),
        pytest.param(Compressor().compress(TEXT)[:-1], "cannot be decompressed", id="cut short"),
        pytest.param(Compressor().compress(TEXT)[:7], "not compressed in a way", id="cut in its head"),
        pytest.param(b"BZh9" + TEXT, "not compressed in a way", id="an unknown codec"),
        pytest.param(b"", "not compressed in a way", id="nothing"),
        pytest.param(
            zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), "does not say how many", id="no size"
        ),
    ],
)
def test_a_frame_that_is_not_right_is_refused(frame, reason):
    with pytest.raises(CannotDecompress, match=reason):
        decompress(frame, MOST)


@pytest.mark.parametrize("stored", [TEXT[:-1], Compressor().compress(TEXT[:-1]), Compressor().compress(TEXT + b"x")])
def test_a_chunk_of_another_size_than_its_root_says_is_refused(stored):
    with pytest.raises(CannotDecompress):
        read_chunk(stored, len(TEXT))
