"""A running datamon for benchmarks, in memory where that can be had, and what its processes take."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from datamon.settings.settings import Settings

BIN = Path(sys.executable).parent
RESULTS = Path(__file__).parent / "results"
MEMORY = Path("/dev/shm")
CORES = 2  # for us and for the others


@contextmanager
def scratch():
    """A folder that is fast to write to, and gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="datamon-bench-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(folder):
    """`datamon up` with its home in a folder. Gives the settings to connect with."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATAMON_", "TEMPORAL_"))}
    own = {"DATAMON_HOME": str(folder / "home"), "DATAMON_STORE": str(folder / "store")}
    environment = kept | own | {"DATAMON_SPARK_MASTER": f"local[{CORES}]"}
    subprocess.run([BIN / "datamon", "up", "--detach"], env=environment, check=True, capture_output=True)
    try:
        yield Settings.load(environment)
    finally:
        subprocess.run([BIN / "datamon", "down"], env=environment, check=True, capture_output=True)


def processes(*words):
    """The processes with all of these words on their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(path.parent)
    return found


def peak(*words):
    """The most memory that any one of these processes ever had, in MiB."""
    return max((_status(process, "VmHWM") for process in processes(*words)), default=0) >> 10


def now(*words):
    """The memory that these processes have together, in MiB."""
    return sum(_status(process, "VmRSS") for process in processes(*words)) >> 10


def _status(process, field):
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


def save(name, result, bars):
    """Write a result beside its bars, print it, and end with 1 if one was missed. `bars`: (what, value, at most)."""
    result = result | {"bars": [{"what": what, "value": value, "at most": most} for what, value, most in bars]}
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    missed = [what for what, value, most in bars if value > most]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


@contextmanager
def clock():
    """A list that holds, after the block, how many seconds it took."""
    took = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)
