"""Storing and fetching a dataset in S3, beside the tools that people use for it.

    make bench                                     three rounds against restic, s5cmd, rclone and dvc
    python -m bench.content --rounds 1 --peers restic,s5cmd --trees small

Every tool gets the same files, made anew for each round, and the same S3 server (SeaweedFS, on this machine). What
is timed is the command line a person would type; making repositories, buckets and diamonds is not. The worker is
warm. Prints a table with medians and the bars that datamon has set itself, and writes them to bench/results.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path

from bench.peers import install
from tests.servers import s3_server

ROOT = Path(__file__).parent.parent
DATAMON = Path(sys.executable).parent / "datamon"
RESULTS = ROOT / "bench" / "results" / "content.json"
KIB, MIB = 1 << 10, 1 << 20

# tree, what is done, against whom, at most how many times its time
BARS = [
    ("small", "store", "restic", 0.6),
    ("small", "store", "s5cmd", 0.3),
    ("large", "store", "s5cmd", 1.0),
    ("small", "store again", "restic", 1.0),
    ("small", "fetch", "restic", 0.8),
    ("large", "fetch", "s5cmd", 1.1),
]


def make_small(folder, rng):
    """20,000 files of 0.5 to 16 KiB in 100 folders."""
    _fill(folder, ((f"d{n % 100:03d}/f{n:05d}", rng.randint(512, 16 * KIB)) for n in range(20_000)), rng)


def make_large(folder, rng):
    """4 files of 256 MiB."""
    _fill(folder, ((f"l{n}", 256 * MIB) for n in range(4)), rng)


def make_mixed(folder, rng):
    """3,000 small files, 200 of up to 4 MiB, 6 of 48 MiB."""
    small = [(f"s{n % 30:02d}/{n:04d}", rng.randint(512, 16 * KIB)) for n in range(3000)]
    medium = [(f"m/{n:03d}", rng.randint(64 * KIB, 4 * MIB)) for n in range(200)]
    _fill(folder, [*small, *medium, *((f"l/{n}", 48 * MIB) for n in range(6))], rng)


TREES = {"small": make_small, "large": make_large, "mixed": make_mixed}


def _fill(folder, files, rng):
    for name, size in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for start in range(0, size, 16 * MIB):
                file.write(rng.randbytes(min(16 * MIB, size - start)))


class Tool(ABC):
    """A way to keep a tree of files in S3. `place` is a bucket and a prefix of its own."""

    again = False  # whether it knows what it has stored before

    def __init__(self, server, programs):
        self.server, self.programs = server, programs
        self.environment = os.environ | server.environment

    def prepare(self, source, place):  # noqa: B027 - most need nothing
        """Whatever comes before the first command. Not timed."""

    @abstractmethod
    def store(self, source, place): ...

    @abstractmethod
    def fetch(self, place, destination): ...

    def run(self, *command, **options):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout.strip()


class Datamon(Tool):
    again = True

    def __init__(self, server, home):
        super().__init__(server, {})
        self.environment |= {"DATAMON_HOME": str(home), "DATAMON_STORE": "s3://datamon/store"}
        server.client().create_bucket(Bucket="datamon")
        self.run(DATAMON, "up", "--detach")
        self.run(DATAMON, "repo", "create", "--repo", "bench")
        self.stored = {}

    def warm_up(self, folder):
        for number in range(3):
            (folder / f"{number}").mkdir(parents=True)
            _fill(folder / f"{number}", ((f"{n}", 4 * KIB) for n in range(500)), random.Random(number))
            self.prepare(None, f"warm/{number}")
            self.store(folder / f"{number}", f"warm/{number}")

    def prepare(self, source, place):
        self.diamond = self.run(DATAMON, "diamond", "initialize", "--repo", "bench")

    def store(self, source, place):
        where = ("--repo", "bench", "--diamond", self.diamond)
        self.split = self.run(DATAMON, "diamond", "add", *where, "--path", source)
        self.bundle = self.run(DATAMON, "diamond", "commit", *where, "--message", place)

    def newly_stored(self):
        """The share of the bytes that the last store had to store."""
        where = ("--repo", "bench", "--diamond", self.diamond, "--split", self.split)
        split = json.loads(self.run(DATAMON, "diamond", "split", "get", *where, "--format", "json"))
        return split["stored"] / split["bytes"]

    def fetch(self, place, destination):
        where = ("--repo", "bench", "--bundle", self.bundle)
        self.run(DATAMON, "bundle", "download", *where, "--destination", destination)

    def close(self):
        self.run(DATAMON, "down")


class Restic(Tool):
    again = True

    def repository(self, place):
        return ("--repo", f"s3:{self.server.endpoint}/{place}")

    def prepare(self, source, place):
        self.environment |= {"RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": f"{source}.restic-cache"}
        self.run("restic", *self.repository(place), "init")

    def store(self, source, place):
        self.run("restic", *self.repository(place), "backup", source)

    def fetch(self, place, destination):
        self.run("restic", *self.repository(place), "restore", "latest", "--target", destination)


class S5cmd(Tool):
    def s5cmd(self, *words):
        self.run(self.programs["s5cmd"], "--endpoint-url", self.server.endpoint, *words)

    def store(self, source, place):
        self.s5cmd("cp", f"{source}/", f"s3://{place}/")

    def fetch(self, place, destination):
        self.s5cmd("cp", f"s3://{place}/*", f"{destination}/")


class Rclone(Tool):
    def rclone(self, *words):
        remote = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": self.server.endpoint}
        self.environment |= {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in remote.items()}
        self.run(self.programs["rclone"], *words, "--transfers", "16", "--checkers", "16")

    def store(self, source, place):
        self.rclone("copy", source, f"bench:{place}")

    def fetch(self, place, destination):
        self.rclone("copy", f"bench:{place}", destination)


class Dvc(Tool):
    def prepare(self, source, place):
        self.project = Path(f"{source}.dvc-project")
        self.project.mkdir()
        self.data = self.project / "data"
        shutil.copytree(source, self.data)
        for words in (
            ("init", "--no-scm", "--quiet"),
            ("config", "core.analytics", "false"),
            ("remote", "add", "--default", "s3", f"s3://{place}"),
            ("remote", "modify", "s3", "endpointurl", self.server.endpoint),
        ):
            self.dvc(*words)

    def dvc(self, *words):
        self.run(self.programs["dvc"], *words, cwd=self.project)

    def store(self, source, place):
        self.dvc("add", "--quiet", "data")
        self.dvc("push", "--quiet")

    def fetch(self, place, destination):
        shutil.rmtree(self.data)
        shutil.rmtree(self.project / ".dvc" / "cache")
        began = time.perf_counter()
        self.dvc("pull", "--quiet")
        took = time.perf_counter() - began
        shutil.move(self.data, destination)
        return took


PEERS = {"restic": Restic, "s5cmd": S5cmd, "rclone": Rclone, "dvc": Dvc}


@contextmanager
def bucket_of(server, name):
    """A bucket that is gone with everything in it afterwards."""
    client = server.client()
    client.create_bucket(Bucket=name)
    client.put_object(Bucket=name, Key="first", Body=b"")  # the server finds room for a bucket with its first object
    client.delete_object(Bucket=name, Key="first")
    yield f"{name}/data"
    client.delete_bucket(Bucket=name)


def timed(work, *args):
    began = time.perf_counter()
    took = work(*args)
    return took if took is not None else time.perf_counter() - began


def check(source, destination):
    """Whatever a tool made of the way there, the bytes must be back."""
    found = {path.name: path for path in Path(destination).rglob("*") if path.is_file()}
    wanted = [path for path in Path(source).rglob("*") if path.is_file()]
    assert len(wanted) <= len(found)
    for path in random.Random(1).sample(wanted, min(len(wanted), 50)):
        assert found[path.name].read_bytes() == path.read_bytes(), path


def measure(tools, trees, rounds, folder, server):
    """Seconds by (tree, what, tool), and the share of bytes that datamon stored again."""
    seconds, shares = {}, []
    for turn in range(rounds):
        for tree in trees:
            source = folder / "data" / f"{tree}-{turn}"
            source.mkdir(parents=True)
            TREES[tree](source, random.Random(f"{tree} {turn}"))
            names = list(tools)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                tool = tools[name]
                with bucket_of(server, f"{name}-{tree}-{turn}") as place:
                    out = folder / "out"
                    tool.prepare(source, place)
                    took = {"store": timed(tool.store, source, place)}
                    if tool.again and tree == "small":
                        if isinstance(tool, Datamon):
                            tool.prepare(source, place)
                        took["store again"] = timed(tool.store, source, place)
                        shares += [tool.newly_stored()] if isinstance(tool, Datamon) else []
                    took["fetch"] = timed(tool.fetch, place, out)
                    check(source, out)
                    shutil.rmtree(out)
                for what, value in took.items():
                    seconds.setdefault((tree, what, name), []).append(value)
                    print(f"  round {turn + 1}  {tree:6} {what:12} {name:8} {value:7.2f} s", file=sys.stderr)
            for leftover in (folder / "data").iterdir():
                shutil.rmtree(leftover)
    return seconds, shares


def report(seconds, shares):
    """A table, and the same as plain values."""
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    tools = list(dict.fromkeys(tool for _, _, tool in medians))
    print(f"\n{'seconds, median':20}" + "".join(f"{tool:>10}" for tool in tools))
    for tree, what in dict.fromkeys((tree, what) for tree, what, _ in medians):
        row = [medians.get((tree, what, tool)) for tool in tools]
        print(f"{tree + ', ' + what:20}" + "".join(f"{value:10.2f}" if value else f"{'':10}" for value in row))
    print()
    bars = []
    for tree, what, peer, bar in BARS:
        ours, theirs = medians.get((tree, what, "datamon")), medians.get((tree, what, peer))
        if ours is None or theirs is None:
            continue
        ratio = ours / theirs
        verdict = "met" if ratio <= bar else f"missed by {ratio / bar - 1:.0%}"
        print(f"{tree + ', ' + what:20} {ratio:5.2f} x {peer:7} (bar {bar})  {verdict}")
        bars.append({"tree": tree, "what": what, "peer": peer, "ratio": round(ratio, 3), "bar": bar})
    if shares:
        print(f"{'small, store again':20} {max(shares):.2%} of the bytes stored anew (bar 1 %)")
    told = {" / ".join(key): [round(value, 3) for value in values] for key, values in seconds.items()}
    return {"seconds": told, "bars": bars, "stored_anew": shares, "cores": os.cpu_count()}


def _memory():
    """A folder in memory, so that it is the tools that are measured, and not what the disk is busy with."""
    try:
        return "/dev/shm" if shutil.disk_usage("/dev/shm").free > 6 << 30 else None
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", default=",".join(TREES))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--folder", default=_memory(), help="where the data goes; by default into memory if it fits")
    options = parser.parse_args()
    peers = [name for name in options.peers.split(",") if name]
    programs = install(peers, ROOT / ".bench")
    with tempfile.TemporaryDirectory(prefix="datamon-bench.", dir=options.folder) as name:
        folder = Path(name)
        with tempfile.TemporaryDirectory(prefix="datamon-s3.") as s3, s3_server(Path(s3)) as server:
            datamon = Datamon(server, folder / "home")
            try:
                datamon.warm_up(folder / "warm")
                tools = {"datamon": datamon} | {name: PEERS[name](server, programs) for name in peers}
                found = measure(tools, options.trees.split(","), options.rounds, folder, server)
            finally:
                datamon.close()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report(*found), indent=2) + "\n")
    print(f"\nwritten to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
