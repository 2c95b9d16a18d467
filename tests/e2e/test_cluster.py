"""Upload and commit on a real Spark cluster: a master and two workers out of the pyspark wheel, on loopback."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.cluster import spark_cluster
from tests.conftest import Command, tree
from tests.e2e.sources import put_objects
from tests.faults.s3 import faulty


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
    """A master and two workers, of one core each. They have the S3 server's credentials in their own environment."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def far_s3(s3):
    """The S3 server, with a proxy before it that can hold requests."""
    with faulty(s3) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def command(cluster, bare_python, s3, far_s3, tmp_path_factory):
    """`datamon up` with the cluster for its Spark."""
    environment = {
        "DATAMON_STORE": f"{s3.new_place()}/store",
        "DATAMON_SPARK_MASTER": cluster.url,
        "PYSPARK_PYTHON": bare_python,
        "AWS_ENDPOINT_URL": far_s3.endpoint,
    }
    command = Command(tmp_path_factory.mktemp("home"), environment)
    command("up", "--detach")
    try:
        command("repo", "create", "--repo", "r")
        yield command
    finally:
        command("down")


@pytest.fixture
def where(command):
    return ("--repo", "r", "--diamond", command("diamond", "initialize", "--repo", "r"))


def put_source(s3, place, number):
    """A prefix in S3 with so many small files, and what they are."""
    files = {f"there/{n:03d}": f"{n}" for n in range(number)}
    return put_objects(s3, f"{place}/in", files), files


def downloaded(command, bundle, folder):
    command("bundle", "download", "--repo", "r", "--bundle", bundle, "--destination", str(folder))
    return tree(folder)


def test_a_diamond_on_a_cluster(command, cluster, where, s3, place, files, tmp_path):
    source, there = put_source(s3, place, 20)
    command("diamond", "add", *where, "--path", source)
    command("diamond", "add", *where, "--path", files("here", {"here": "too"}))
    bundle = command("diamond", "commit", *where, "--message", "m")
    assert downloaded(command, bundle, tmp_path / "out") == there | {"here": "too"}
    assert any(cluster.work.rglob("datamon.zip"))


def test_executors_that_are_killed_in_the_middle(command, cluster, far_s3, where, s3, place, tmp_path):
    """While a split is uploaded, and while it is committed: others take over, and Temporal does not even notice."""
    source, there = put_source(s3, place, 20)

    def killed_while(words, path):
        with far_s3.hold("PUT", path) as hold, command.popen(*words) as process:
            assert hold.reached.wait(60), "the request never came"
            assert cluster.kill_executors() > 0
            hold.end()
            out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        return out.strip()

    split = killed_while(("diamond", "add", *where, "--path", source), "-00000.yaml")
    assert command.json("diamond", "split", "get", *where, "--split", split)["attempts"] == 1
    bundle = killed_while(("diamond", "commit", *where, "--message", "m"), "/metadata/lists/")
    assert downloaded(command, bundle, tmp_path / "out") == there
