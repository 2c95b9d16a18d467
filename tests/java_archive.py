"""The classes of Spark in an archive, which a JVM maps instead of loading them: so it starts in half the time.

    python -m tests.java_archive FILE

The environment names it to every JVM that the tests start, be it there already or not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from datamon.worker import spark
from datamon.worker.java import java_home

FOLDER = Path(__file__).parent.parent / "build"
DUMP_SECONDS = 100
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # compile lightly, collect simply


def use_archive() -> subprocess.Popen[bytes] | None:
    """Have all JVMs use the archive, and begin to make it if it is not there."""
    archive = FOLDER / f"spark-{version('pyspark')}-{java_home(FOLDER / 'java').name}.jsa"
    for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ[variable] = f"-XX:SharedArchiveFile={archive} -Xlog:disable {SHORT_LIVED}"
    if archive.exists():
        return None
    return subprocess.Popen([sys.executable, "-m", "tests.java_archive", archive], stderr=subprocess.DEVNULL)


def main(archive: Path) -> None:
    archive.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=archive.parent) as folder:
        fresh = Path(folder) / "fresh"
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable {SHORT_LIVED}"
        spark.STOP_SECONDS = DUMP_SECONDS
        runtime = spark.SparkRuntime("local[2]", Path(folder) / "spark")
        runtime.warm_up()
        runtime.context()
        runtime.stop()
        fresh.rename(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
