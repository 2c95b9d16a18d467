"""Storing and fetching a dataset in S3, beside the tools that people use for it.

    make bench                                     three rounds against restic, s5cmd, rclone and dvc
    python -m bench.content --rounds 1 --peers restic,s5cmd --trees small

Every tool gets the same files, made anew for each round, and the same S3 server (SeaweedFS, on this machine). What
is timed is the one command that a person would type; making repositories and buckets is not. The worker is warm. Files
are some seconds old when they are stored, as data usually is. Some data is random, some is made by people: releases of
npm packages, fetched from the registry. Prints a table with medians and the bars that datamon has set itself, and
writes them to bench/results.
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
    ("small", "store", "restic", 0.7),
    ("small", "store again", "restic", 1.0),
    ("small", "fetch", "restic", 0.7),
    ("large", "store", "s5cmd", 1.0),
    ("large", "store again", "restic", 1.0),
    ("large", "fetch", "s5cmd", 0.8),
    ("web", "store", "restic", 0.6),
    ("web", "fetch", "restic", 0.6),
    ("inserted", "store changed", "restic", 1.0),
]
NEW_BYTES_BAR = 0.02  # of a file of 1 GiB, with 1 MiB inserted at its front
STORED_BAR = 1.0  # times what restic stores of the same releases

RELEASES = {
    "typescript": ["5.4.5", "5.5.4", "5.6.3", "5.7.3", "5.8.3", "5.9.2"],
    "three": ["0.160.0", "0.162.0", "0.164.0", "0.166.0", "0.168.0", "0.170.0"],
    "prettier": ["3.0.3", "3.1.1", "3.2.5", "3.3.3", "3.4.2", "3.5.3"],
}
WEB = ["webpack@5.90.0", "typescript@5.4.5", "eslint@8.57.0", "jest@29.7.0", "react-scripts@5.0.1", "next@14.1.0"]
SETTLED_SECONDS = 3


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


def make_web(folder, rng):
    """The dependencies of a web project, as npm installs them."""
    cached = ROOT / ".bench" / "web"
    if not (cached / "node_modules").exists():
        cached.mkdir(parents=True, exist_ok=True)
        quiet = ["--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--silent"]
        subprocess.run(["npm", "install", *quiet, *WEB], cwd=cached, check=True)
    shutil.copytree(cached / "node_modules", folder / "node_modules")


def make_one(folder, rng):
    """A file of 1 GiB."""
    _fill(folder, [("one", 1024 * MIB)], rng)


def insert(folder, rng):
    """1 MiB at the front of that file."""
    before = folder / "one"
    with (folder / "changed").open("wb") as file, before.open("rb") as old:
        file.write(rng.randbytes(MIB))
        shutil.copyfileobj(old, file, 16 * MIB)
    (folder / "changed").rename(before)


TREES = {"small": make_small, "large": make_large, "mixed": make_mixed, "web": make_web, "inserted": make_one}
AGAIN = {"small", "large"}  # trees that are stored once more, unchanged
CHANGES = {"inserted": insert}
ONLY = {"web": {"restic"}, "inserted": {"restic"}}  # peers, where not all of them


def releases_of(package):
    """A folder for each release of a package, from the registry, the oldest first."""
    for version in RELEASES[package]:
        folder = ROOT / ".bench" / "releases" / package / version
        if not folder.exists():
            folder.mkdir(parents=True)
            quiet = ["--silent", "--pack-destination", str(folder)]
            done = subprocess.run(
                ["npm", "pack", *quiet, f"{package}@{version}"], capture_output=True, text=True, check=True
            )
            archive = folder / done.stdout.strip()
            subprocess.run(["tar", "xzf", archive, "-C", folder], check=True)
            archive.unlink()
        yield folder


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

    def __init__(self, server, home, name="bench"):
        super().__init__(server, {})
        self.bucket, self.repo, self.repos = f"datamon-{name}", "bench", {"bench"}
        self.environment |= {"DATAMON_HOME": str(home), "DATAMON_STORE": f"s3://{self.bucket}/store"}
        server.client().create_bucket(Bucket=self.bucket)
        self.run(DATAMON, "up", "--detach")
        self.run(DATAMON, "repo", "create", "--repo", self.repo)

    def warm_up(self, folder):
        """A worker that has been at work for a while: its processes have all their memory, the server its volumes."""
        for number, size in enumerate((4 * KIB, 4 * KIB, 256 * KIB)):
            (folder / f"{number}").mkdir(parents=True)
            _fill(folder / f"{number}", ((f"{n}", size) for n in range(500)), random.Random(number))
            self.store(folder / f"{number}", f"warm/{number}")
            self.fetch(None, folder / f"out{number}")

    def prepare(self, source, place):
        """A repo of its own: what another tree has left in a bundle is not to help."""
        self.repo = place.partition("/")[0]
        if self.repo not in self.repos:
            self.run(DATAMON, "repo", "create", "--repo", self.repo)
            self.repos.add(self.repo)

    def store(self, source, place):
        upload = (DATAMON, "bundle", "upload", "--repo", self.repo, "--path", source, "--message", place)
        self.bundle = self.run(*upload)

    def newly_stored(self):
        """The share of the bytes that the last store had to store."""
        where = ("--repo", self.repo, "--bundle", self.bundle, "--format", "json")
        bundle = json.loads(self.run(DATAMON, "bundle", "get", *where))
        return bundle["stored"] / bundle["bytes"]

    def fetch(self, place, destination):
        where = ("--repo", self.repo, "--bundle", self.bundle)
        self.run(DATAMON, "bundle", "download", *where, "--destination", destination)

    def size(self, place):
        return size_of(self.server, self.bucket)

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

    def size(self, place):
        bucket, _, prefix = place.partition("/")
        return size_of(self.server, bucket, prefix)


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


def size_of(server, bucket, prefix=""):
    """How many bytes the objects below a prefix have."""
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return sum(item["Size"] for page in pages for item in page.get("Contents", ()))


def settle(folder):
    """Wait until nothing in a folder is new: data is seldom stored in the second in which it was written."""
    newest = max(path.lstat().st_ctime for path in Path(folder).rglob("*"))
    time.sleep(max(0.0, newest + SETTLED_SECONDS - time.time()))


def timed(work, *args):
    began = time.perf_counter()
    took = work(*args)
    return took if took is not None else time.perf_counter() - began


def check(source, destination):
    """Every file came back, below whichever folder, as restic restores a whole path."""
    wanted = {path.relative_to(source): path for path in source.rglob("*") if path.is_file() and not path.is_symlink()}
    first = next(iter(wanted))
    same = (path for path in destination.rglob(first.name) if path.parts[-len(first.parts) :] == first.parts)
    top = min(same, key=lambda path: len(path.parts)).parents[len(first.parts) - 1]
    for name, path in wanted.items():
        assert (top / name).read_bytes() == path.read_bytes(), name


def measure(datamon_of, peers, trees, rounds, folder, server):
    """Seconds by (tree, what, tool), and shares of bytes that datamon stored anew by (tree, what)."""
    seconds, shares = {}, {}
    for turn in range(rounds):
        datamon = datamon_of(turn)
        try:
            for tree in trees:
                tools = {"datamon": datamon} | {n: t for n, t in peers.items() if n in ONLY.get(tree, peers)}
                source = folder / "data" / f"{tree}-{turn}"
                for name in [*tools][turn % len(tools) :] + [*tools][: turn % len(tools)]:
                    rng = random.Random(f"{tree} {turn}")
                    source.mkdir(parents=True)
                    TREES[tree](source, rng)
                    settle(source)
                    took = run_tree(tools[name], name, tree, turn, source, folder / "out", server, rng, shares)
                    for what, value in took.items():
                        seconds.setdefault((tree, what, name), []).append(value)
                        print(f"  round {turn + 1}  {tree:8} {what:13} {name:8} {value:7.2f} s", file=sys.stderr)
                    shutil.rmtree(folder / "data")
        finally:
            datamon.close()
    return seconds, shares


def run_tree(tool, name, tree, turn, source, out, server, rng, shares):
    """What one tool needs for all that is done with a tree."""
    with bucket_of(server, f"{name}-{tree}-{turn}") as place:
        tool.prepare(source, place)
        took = {"store": timed(tool.store, source, place)}
        if tool.again and tree in AGAIN:
            took["store again"] = timed(tool.store, source, place)
        if tool.again and tree in CHANGES:
            CHANGES[tree](source, rng)
            settle(source)
            took["store changed"] = timed(tool.store, source, place)
        if isinstance(tool, Datamon) and len(took) > 1:
            shares.setdefault((tree, [*took][-1]), []).append(tool.newly_stored())
        took["fetch"] = timed(tool.fetch, place, out)
        check(source, out)
        shutil.rmtree(out)
    return took


def measure_releases(datamon, restic, server):
    """Bytes that each tool has stored when it holds all releases of a package, and the seconds that took."""
    found = {}
    for package in RELEASES:
        for name, tool in (("datamon", datamon), ("restic", restic)):
            with bucket_of(server, f"{name}-{package}") as place:
                before = tool.size(place) if tool is datamon else 0
                folders = list(releases_of(package))
                tool.prepare(ROOT / ".bench" / "releases" / package, place)
                took = sum(timed(tool.store, folder, place) for folder in folders)
                found[package, name] = tool.size(place) - before, took
                print(f"  releases of {package:12} {name:8} {found[package, name]}", file=sys.stderr)
    return found


def report(seconds, shares, releases):
    """A table, and the same as plain values."""
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    tools = list(dict.fromkeys(tool for _, _, tool in medians))
    print(f"\n{'seconds, median':24}" + "".join(f"{tool:>10}" for tool in tools))
    for tree, what in dict.fromkeys((tree, what) for tree, what, _ in medians):
        row = [medians.get((tree, what, tool)) for tool in tools]
        print(f"{tree + ', ' + what:24}" + "".join(f"{value:10.2f}" if value else f"{'':10}" for value in row))
    print()
    bars = []
    for tree, what, peer, bar in BARS:
        ours, theirs = medians.get((tree, what, "datamon")), medians.get((tree, what, peer))
        if ours is not None and theirs is not None:
            bars.append(judged(f"{tree}, {what}", peer, ours / theirs, bar))
    for (tree, what), values in shares.items():
        bars.append(judged(f"{tree}, {what}: new bytes", "all", max(values), NEW_BYTES_BAR))
    for package in dict.fromkeys(package for package, _ in releases):
        ours, theirs = releases[package, "datamon"][0], releases[package, "restic"][0]
        bars.append(judged(f"releases of {package}: bytes", "restic", ours / theirs, STORED_BAR))
    told = {" / ".join(key): [round(value, 3) for value in values] for key, values in seconds.items()}
    stored = {f"{package} / {tool}": values for (package, tool), values in releases.items()}
    return {"seconds": told, "bars": bars, "releases": stored, "cores": os.cpu_count()}


def judged(what, peer, ratio, bar):
    verdict = "met" if ratio <= bar else f"missed by {ratio / bar - 1:.0%}"
    print(f"{what:36} {ratio:7.4f} x {peer:7} (bar {bar})  {verdict}")
    return {"what": what, "peer": peer, "ratio": round(ratio, 4), "bar": bar}


def _memory():
    """A folder in memory, so that it is the tools that are measured, and not what the disk is busy with."""
    try:
        return "/dev/shm" if shutil.disk_usage("/dev/shm").free > 6 << 30 else None
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trees", default=",".join([*TREES, "releases"]))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--folder", default=_memory(), help="where the data goes; by default into memory if it fits")
    options = parser.parse_args()
    peers = [name for name in options.peers.split(",") if name]
    programs = install(peers, ROOT / ".bench")
    with tempfile.TemporaryDirectory(prefix="datamon-bench.", dir=options.folder) as name:
        folder = Path(name)
        with tempfile.TemporaryDirectory(prefix="datamon-s3.") as s3, s3_server(Path(s3)) as server:

            def datamon_of(name):
                """A stack with a store of its own, so that nothing helps that an earlier round has stored."""
                made = Datamon(server, folder / f"home-{name}", name)
                made.warm_up(folder / f"warm-{name}")
                return made

            tools = {name: PEERS[name](server, programs) for name in peers}
            trees = [tree for tree in options.trees.split(",") if tree in TREES]
            found = measure(datamon_of, tools, trees, options.rounds, folder, server)
            releases = {}
            if "releases" in options.trees and "restic" in peers:
                datamon = datamon_of("releases")
                try:
                    releases = measure_releases(datamon, tools["restic"], server)
                finally:
                    datamon.close()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report(*found, releases), indent=2) + "\n")
    print(f"\nwritten to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
