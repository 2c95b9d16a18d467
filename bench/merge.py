"""A commit of a million files, beside DuckDB and Spark SQL doing the same merge.

    make scale                                     three rounds, then the curves of bench.growth
    python -m bench.merge --entries 100_000 --rounds 1

datamon   `commit` of a diamond with done splits, through Temporal, on a warm stack: file lists to file lists
DuckDB    the same entries from Parquet to Parquet, with two threads
Spark SQL the same from JSON lines to JSON lines, window over name, on a warm session with two cores

All find the latest version of each name and keep the others that differ, and are seen to come to the same number of
files. The files of a bundle are in name order, so the same merge is that with `ORDER BY name`; what DuckDB takes
without is told too. Ours also looks for files in the place of folders, and publishes the bundle. Spark SQL runs as
everybody would write it first, `spark.read.json(folder)` with Spark's own settings and in no order; told too is what it
takes with the schema given, with that and its output in name order, and with that and a number of partitions that fits
two cores. All have two cores, their input in memory, and two runs before the first that counts; what Spark SQL takes
the first time is told too, for a job that is run once takes that long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import duckdb

from bench.load import REPO, Load, write_diamond
from bench.stack import CORES, clock, running, save, scratch
from datamon.diamonds.catalog import list_splits, split_lists
from datamon.starter.client import Datamon
from datamon.stores import keys
from datamon.stores.context import open_context
from datamon.worker.java import java_home

BARS = {"DuckDB, sorted": 1.5, "Spark SQL": 0.3}  # at most so many times their time
WARM_UP = 2

_DUCKDB = """
COPY (
    SELECT CASE WHEN n = 1 THEN name ELSE '.conflicts/' || split || '/' || name END AS name,
           hash, size, mode, mtime, timestamp, pack, place
    FROM (
        SELECT *, row_number() OVER w AS n, first_value(hash) OVER w AS best
        FROM read_parquet('{source}/*.parquet')
        WINDOW w AS (PARTITION BY name ORDER BY timestamp DESC, split DESC)
    )
    WHERE n = 1 OR hash <> best
    {order}
) TO '{target}' (FORMAT parquet)
"""


def write_peers_input(store, diamond, folder):
    """The entries of a diamond as JSON lines and as Parquet, one file a split, for tools that do not know our lists."""
    context = open_context(store)
    (folder / "json").mkdir()
    (folder / "parquet").mkdir()
    for split in list_splits(context, REPO, diamond):
        lines = folder / "json" / f"{split.id}.json"
        with lines.open("w") as out:
            for entry in split_lists(context, split).entries():
                pack, place = entry.at
                fields = {f: getattr(entry, f) for f in ("name", "hash", "size", "mode", "mtime", "timestamp")}
                out.write(json.dumps(fields | {"split": split.id, "pack": pack, "place": place}) + "\n")
        target = folder / "parquet" / f"{split.id}.parquet"
        duckdb.sql(f"COPY (SELECT * FROM read_json('{lines}')) TO '{target}' (FORMAT parquet)")


def duckdb_seconds(folder, files, *, sorted_by_name):
    target = folder / "out.parquet"
    with duckdb.connect(config={"threads": CORES}) as connection, clock() as took:
        order = "ORDER BY name" if sorted_by_name else ""
        connection.execute(_DUCKDB.format(source=folder / "parquet", target=target, order=order))
    assert duckdb.sql(f"SELECT count(*) FROM '{target}'").fetchall() == [(files,)]
    target.unlink()
    return took[0]


_SCHEMA = (
    "name string, hash string, size long, mode int, mtime long, timestamp long, split string, pack string, place long"
)


class SparkSql:
    """A warm session that runs the job of a dozen lines that everybody would write."""

    def __init__(self, folder):
        from pyspark.sql import SparkSession

        os.environ["JAVA_HOME"] = str(java_home(folder / "java"))
        builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.driver.memory", "4g")
        settings = {"spark.ui.enabled": "false", "spark.local.dir": str(folder / "spark"), "spark.log.level": "ERROR"}
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()

    def seconds(self, folder, files, *, schema=None, sorted_by_name=False, partitions=200):
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        self.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        latest_first = Window.partitionBy("name").orderBy(f.desc("timestamp"), f.desc("split"))
        lost_name = f.concat(f.lit(".conflicts/"), "split", f.lit("/"), "name")
        with clock() as took:
            reader = self.spark.read.schema(schema) if schema else self.spark.read
            entries = reader.json(str(folder / "json"))
            ranked = entries.withColumn("n", f.row_number().over(latest_first))
            ranked = ranked.withColumn("best", f.first("hash").over(latest_first))
            kept = ranked.where("n = 1 or hash <> best")
            named = kept.withColumn("name", f.when(f.col("n") == 1, f.col("name")).otherwise(lost_name))
            named = named.orderBy("name") if sorted_by_name else named
            named.drop("n", "best", "split").write.json(str(folder / "out.json"))
        assert self.spark.read.text(str(folder / "out.json")).count() == files
        shutil.rmtree(folder / "out.json")
        return took[0]

    def close(self):
        self.spark.stop()


async def commit_seconds(datamon, diamond):
    """How long a client waits for the bundle of a diamond that was written by bench.load."""
    handle = await datamon.diamonds.recover(REPO, diamond)
    with clock() as took:
        answer = await handle.commit("measured")
    return took[0], answer


async def warm_up(datamon, store):
    """A worker that has run before: everything is imported, and its Python workers are there."""
    for seed in (101, 102):
        diamond, _ = write_diamond(Load(100_000, seed=seed), store)
        await commit_seconds(datamon, diamond)


def remove_diamond(store, diamond, bundle):
    """Make room for the next one."""
    for key in (
        f"vmetadata/{keys.diamond_folder(REPO, diamond)}",
        f"metadata/{keys.bundles(REPO)}{bundle}",
        "metadata/lists",
    ):
        shutil.rmtree(Path(store) / key, ignore_errors=True)


async def measure(entries, rounds):
    """Seconds of each in every round; the first rounds are for warming up."""
    found = defaultdict(list)
    with scratch() as folder, running(folder) as settings:
        sql = SparkSql(folder)
        async with await Datamon.connect(settings) as datamon:
            for number in range(WARM_UP + rounds):
                here = folder / f"round-{number}"
                here.mkdir()
                diamond, files = write_diamond(Load(entries, seed=number), settings.store)
                write_peers_input(settings.store, diamond, here)
                seconds, answer = await commit_seconds(datamon, diamond)
                assert answer.files == files
                found["datamon"].append(seconds)
                found["DuckDB"].append(duckdb_seconds(here, files, sorted_by_name=False))
                found["DuckDB, sorted"].append(duckdb_seconds(here, files, sorted_by_name=True))
                found["Spark SQL"].append(sql.seconds(here, files))
                found["Spark SQL, schema"].append(sql.seconds(here, files, schema=_SCHEMA))
                tuned = sql.seconds(here, files, schema=_SCHEMA, partitions=2 * CORES)
                found["Spark SQL, schema, tuned"].append(tuned)
                in_order = sql.seconds(here, files, schema=_SCHEMA, sorted_by_name=True)
                found["Spark SQL, schema, sorted"].append(in_order)
                print({name: round(times[-1], 2) for name, times in found.items()}, file=sys.stderr, flush=True)
                shutil.rmtree(here)
                remove_diamond(settings.store, diamond, answer.bundle)
        sql.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    found = asyncio.run(measure(args.entries, args.rounds))
    first = found["Spark SQL"][0]
    counted = {name: times[WARM_UP:] for name, times in found.items()}
    ratios = {
        peer: round(statistics.median(a / b for a, b in zip(counted["datamon"], times, strict=True)), 3)
        for peer, times in counted.items()
        if peer != "datamon"
    }
    result = {
        "entries": args.entries,
        "cores": CORES,
        "seconds": {name: round(statistics.median(times), 3) for name, times in counted.items()},
        "from to": {name: [round(min(times), 3), round(max(times), 3)] for name, times in counted.items()},
        "Spark SQL, first time": round(first, 3),
        "datamon / peer": ratios,
    }
    save("merge", result, [(f"datamon / {peer}", ratios[peer], most) for peer, most in BARS.items()])


if __name__ == "__main__":
    main()
