"""How many bytes a changed file costs, by the average size of chunks: what decision 023 was made from.

    python -m bench.chunks

The files are random bytes, a sorted CSV, a Parquet file (DuckDB writes it), and tars of releases of npm packages that
are fetched from the registry. Prints a table: what the next versions of a file add to the store, compressed.
"""

from __future__ import annotations

import io
import random
import tarfile
import tempfile
from pathlib import Path

import duckdb
from blake3 import blake3

from bench.content import RELEASES, releases_of
from datamon.content import chunking
from datamon.content.compression import Compressor

KIB, MIB = 1 << 10, 1 << 20
AVERAGES = [256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB]


def random_files(rng):
    """A file of random bytes, and what may become of it."""
    data = rng.randbytes(128 * MIB)
    middle = len(data) // 2
    more = rng.randbytes(MIB)
    yield "1 MiB inserted at the front", data, more + data
    yield "1 MiB inserted in the middle", data, data[:middle] + more + data[middle:]
    yield "1 MiB removed from the middle", data, data[:middle] + data[middle + MIB :]
    yield "1 MiB appended", data, data + more
    yield (
        "a quarter moved to the front",
        data,
        data[middle : middle + middle // 2] + data[:middle] + data[-middle // 2 :],
    )
    yield "one byte changed", data, data[:middle] + b"x" + data[middle + 1 :]


def csv_files(rng):
    """A sorted CSV of 64 MiB, and the same with a row more."""
    rows = [f"{number:09d},{rng.random():.6f},{rng.choice('abcdef')}\n" for number in range(0, 6_000_000, 2)]
    before = "".join(rows).encode()
    rows.insert(len(rows) // 2, f"{len(rows):09d}x,0.5,z\n")
    yield "sorted CSV, a row added in the middle", before, "".join(rows).encode()


def parquet_files(folder):
    """A Parquet file of eight columns, and the same with one of them changed."""
    columns = ", ".join(f"hash(i * {n} + 7) AS c{n}" for n in range(1, 8))
    for name, last in (("before", "i % 1000"), ("after", "(i + 1) % 1000")):
        query = f"SELECT {columns}, {last} AS c8 FROM range(2000000) AS t(i)"
        duckdb.sql(f"COPY ({query}) TO '{folder}/{name}' (FORMAT parquet, ROW_GROUP_SIZE 500000)")
    yield "Parquet, one of eight columns changed", (folder / "before").read_bytes(), (folder / "after").read_bytes()


def tar_of(folder):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder), recursive=False)
    return out.getvalue()


def stored(data, known, compressor):
    """What a version adds to the store, and how many chunks it has."""
    new = count = 0
    for chunk in chunking.cut([data]):
        digest, count = blake3(chunk).digest(), count + 1
        if digest not in known:
            known.add(digest)
            new += len(compressor.chunk(chunk))
    return new, count


def row(name, versions):
    """For each average, what all versions but the first add, and what all of them come to."""
    compressor = Compressor()
    cells = []
    for average in AVERAGES:
        chunking.MIN_CHUNK, chunking.AVERAGE_CHUNK, chunking.MAX_CHUNK = average // 4, average, average * 4
        known: set[bytes] = set()
        costs = [stored(data, known, compressor) for data in versions]
        later, whole = sum(new for new, _ in costs[1:]), sum(new for new, _ in costs)
        cells.append(f"{later / MIB:.2f} ({whole / MIB:.1f})")
    print(f"| {name} | {sum(map(len, versions)) / MIB:.0f} | {' | '.join(cells)} |", flush=True)


def main():
    rng = random.Random(1)
    heads = " | ".join(f"{average // KIB} KiB" for average in AVERAGES)
    print(f"| new MiB of later versions (of all versions) | MiB | {heads} |")
    print(f"| --- | --- |{' --- |' * len(AVERAGES)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, *versions in (*random_files(rng), *csv_files(rng), *parquet_files(Path(folder))):
            row(name, versions)
    for package in RELEASES:
        row(f"six releases of {package}, a tar each", [tar_of(folder) for folder in releases_of(package)])


if __name__ == "__main__":
    main()
