"""Cutting by content: a change costs the chunks around it, and nothing else."""

import io
import random
import tarfile

import pytest
from blake3 import blake3
from pyspark.sql import SparkSession

from datamon.content.chunking import AVERAGE_CHUNK, MAX_CHUNK, MIN_CHUNK, cut

DATA = random.Random(7).randbytes(48 << 20)
MIDDLE = len(DATA) // 2
MIB = 1 << 20
CUTS = [831478, 1664295, 1808458, 3034006, 1050371]


def digests(data):
    return {blake3(chunk).hexdigest(): len(chunk) for chunk in cut([data])}


def new_bytes(changed, before=DATA):
    known = digests(before)
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


def csv(rows):
    return "".join(f"{row:09d},{(row * 7919) % 1_000_003},{'abcdef'[row % 6]}\n" for row in rows).encode()


def test_a_row_that_is_added_in_the_middle_of_a_csv():
    rows = list(range(0, 3_000_000, 2))
    before, after = csv(rows), csv([*rows[:750_000], rows[750_000] - 1, *rows[750_000:]])
    assert new_bytes(after, before) < MAX_CHUNK + AVERAGE_CHUNK < len(after) / 2


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_a_tar_of_a_tree_in_which_two_files_changed_and_one_is_new():
    files = {f"f{number:03d}": random.Random(number).randbytes(100_000 + number) for number in range(400)}
    changed = files | {"f050": b"changed", "f300": files["f300"] + b"more", "f350x": b"new" * 1000}
    assert new_bytes(tar(changed), tar(files)) < 2 * MAX_CHUNK < len(tar(files)) / 2


def test_a_parquet_file_that_is_written_again_with_one_column_changed(spark, tmp_path):
    """As Spark writes it: columns lie one after another, so the others are the same bytes at other places."""
    session = SparkSession(spark.context())
    columns = [f"xxhash64(id, {number}) AS c{number}" for number in range(12)]

    def written(name, changed):
        rows = session.range(400_000).selectExpr(*columns[:6], f"{changed} AS changed", *columns[6:])
        rows.coalesce(1).write.parquet(str(tmp_path / name))
        [file] = (tmp_path / name).glob("*.parquet")
        return file.read_bytes()

    before, after = written("before", "id % 1000"), written("after", "id % 3000 + 1")
    assert len(before) != len(after)
    assert new_bytes(after, before) < len(after) / 2


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
