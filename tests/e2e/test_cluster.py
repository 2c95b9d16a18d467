"""Upload and commit on a real Spark cluster: a master and a worker out of the pyspark wheel, on loopback."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from datamon.stores import open_store
from tests.conftest import Command, tree
from tests.e2e.test_stack import until
from tests.servers import LOOPBACK, free_ports
from worker.java import java_home

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def daemon(folder, name, *words):
    """One of Spark's own daemons, until the block ends; gives its log."""
    environment = os.environ | {
        "JAVA_HOME": str(java_home(folder / "java")),
        "SPARK_HOME": str(SPARK_CLASS.parent.parent),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
    }
    log = folder / f"{name}.log"
    command = [SPARK_CLASS, f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", LOOPBACK, *words]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=folder)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python with our dependencies but without datamon, as on machines that only lend their cores."""
    python = tmp_path_factory.mktemp("bare") / "python"
    base = Path(sys.base_prefix) / "bin" / "python3"
    packages = Path(
        pyspark.__file__
    ).parent.parent  # on this path, a checkout that is installed for editing is not seen
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {base} "$@"\n')
    python.chmod(0o755)
    there = subprocess.run(
        [python, "-c", "import blake3, datamon"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert "No module named 'datamon'" in there.stderr
    return str(python)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, s3):
    """The master's URL. The workers have the S3 server's credentials in their own environment."""
    folder = tmp_path_factory.mktemp("cluster")
    port, ui, worker_ui = map(str, free_ports(3))
    url = f"spark://{LOOPBACK}:{port}"
    with (
        daemon(folder, "Master", "--port", port, "--webui-port", ui) as master,
        daemon(folder, "Worker", "--webui-port", worker_ui, "--cores", "2", "--work-dir", str(folder / "work"), url),
    ):
        until(lambda: "Registering worker" in master.read_text(), 60)
        yield url, folder / "work"


def test_a_diamond_on_a_cluster(cluster, bare_python, place, files, tmp_path):
    url, work = cluster
    source = open_store(f"{place}/in")
    for number in range(20):
        source.create(f"there/{number}", b"%d" % number)
    spark = {"DATAMON_SPARK_MASTER": url, "PYSPARK_PYTHON": bare_python}
    command = Command(tmp_path / "home", {"DATAMON_STORE": f"{place}/store"} | spark)
    command("up", "--detach")
    try:
        command("repo", "create", "--repo", "r")
        where = ("--repo", "r", "--diamond", command("diamond", "initialize", "--repo", "r"))
        command("diamond", "add", *where, "--path", f"{place}/in")
        command("diamond", "add", *where, "--path", files("here", {"here": "too"}))
        bundle = command("diamond", "commit", *where, "--message", "m")
        command("bundle", "download", "--repo", "r", "--bundle", bundle, "--destination", str(tmp_path / "out"))
    finally:
        command("down")
    assert tree(tmp_path / "out") == {f"there/{number}": str(number) for number in range(20)} | {"here": "too"}
    assert any(work.rglob("datamon.zip"))
