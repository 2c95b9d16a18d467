"""One Spark for a worker, started once and in the background, so that it is warm when the first upload comes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from worker.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{ISO8601} spark %p %c{1}: %m%n%ex
"""


class SparkRuntime:
    """Starts Spark on a thread of its own. `context` waits for it."""

    def __init__(self, master: str, folder: Path) -> None:
        self._master, self._folder = master, folder
        self._context: Future[SparkContext] = Future()
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)

    def warm_up(self) -> None:
        """Begin to start, and return at once."""
        self._thread.start()

    def context(self) -> SparkContext:
        """The running Spark."""
        return self._context.result()

    @property
    def is_warm(self) -> bool:
        """Whether the first job need not wait."""
        return self._context.done() and self._context.exception() is None

    def stop(self) -> None:
        """Stop Spark and its JVM."""
        if self._thread.ident is None:
            return
        self._thread.join()
        if self._context.exception() is not None:
            return
        spark = self._context.result()
        jvm: subprocess.Popen[bytes] = spark._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001
        spark.stop()
        spark._gateway.shutdown()  # type: ignore[union-attr]  # noqa: SLF001
        with suppress(OSError):
            jvm.stdin.close()  # type: ignore[union-attr]
        try:
            jvm.wait(5)
        except subprocess.TimeoutExpired:
            jvm.kill()

    def _start(self) -> None:
        try:
            spark = self._build()
            spark.parallelize(range(spark.defaultParallelism)).map(_warm).collect()
            self._context.set_result(spark)
        except BaseException as error:  # noqa: BLE001 - whoever waits for Spark must learn of it
            self._context.set_exception(error)

    def _build(self) -> SparkContext:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        self._folder.mkdir(parents=True, exist_ok=True)
        log4j = self._folder / "log4j2.properties"
        log4j.write_text(_LOG4J)
        os.environ["JAVA_HOME"] = str(java_home(self._folder / "java"))
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
            "spark.scheduler.mode": "FAIR",  # a small split does not wait for a large one
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.local.dir": str(self._folder / "scratch"),
        }
        if self._master.startswith("local"):
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        conf = SparkConf().setMaster(self._master).setAppName("datamon").setAll(list(settings.items()))
        return SparkSession.builder.config(conf=conf).getOrCreate().sparkContext


def _warm(number: int) -> int:
    """Make a Python worker of Spark import what the tasks need."""
    import datamon.commit
    import datamon.content

    return number + len(datamon.commit.__name__) + len(datamon.content.__name__)
