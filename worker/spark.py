"""One Spark for a worker, started once and in the background, so that it is warm when the first upload comes.

Only the SparkContext is made: nothing here is SQL, and a SparkSession would take half as long again to start.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import datamon.core
from datamon.worker.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkContext

STOP_SECONDS = 5
SOCKET_FOLDER = 55  # bytes of its path: with the name of a socket, Linux allows 108
_EXECUTORS_NEED = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION")  # they find credentials themselves

_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""


def _quiet_py4j() -> None:
    """Silence py4j's log: what matters in it is raised as well. Some of it goes to the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


class SparkRuntime:
    """Starts Spark on a thread of its own. `context` waits for it. What the JVM says goes to a log in `folder`."""

    def __init__(self, master: str, folder: Path) -> None:
        self._master, self._folder = master, folder
        self._context: Future[SparkContext] = Future()
        self._gateway: Any = None
        self._sockets: TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def warm_up(self) -> None:
        """Begin to start, and return at once."""
        self._context = Future()
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def context(self) -> SparkContext:
        """The running Spark. One whose JVM was killed, or that did not start, is started again."""
        with self._lock:
            if self._is_dead():
                self.stop()
                self.warm_up()
        return self._context.result()

    def stop(self) -> None:
        """Stop Spark and its JVM, also in the middle of the start."""
        while self._thread is not None and self._thread.is_alive():  # without its JVM the start gives up
            if self._gateway is not None:
                self._gateway.proc.kill()
            self._thread.join(0.05)
        if self._gateway is not None:
            self._end()

    def _is_dead(self) -> bool:
        failed = self._context.done() and self._context.exception() is not None
        return failed or (self._gateway is not None and self._gateway.proc.poll() is not None)

    def _start(self) -> None:
        try:
            spark = self._build()

            def warm(number: int) -> int:  # nested, so that all of it travels: an executor has no `worker`
                import datamon.merge.kernel
                import datamon.sources.upload
                from datamon.core.process_tuning import tune_process

                tune_process()
                return number + len(datamon.merge.kernel.__name__) + len(datamon.sources.upload.__name__)

            spark.parallelize(range(spark.defaultParallelism)).map(warm).collect()
            self._context.set_result(spark)
        except BaseException as error:  # noqa: BLE001 - whoever waits for Spark must learn of it
            self._context.set_exception(error)

    def _end(self) -> None:
        """Stop Spark in order if it still listens, and make PySpark forget its JVM, so that another can be started."""
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        with suppress(OSError, Py4JError):
            if self._context.exception() is None:
                self._context.result().stop()
            self._gateway.shutdown()
        _await_end(self._gateway.proc)
        if self._sockets is not None:
            self._sockets.cleanup()
        self._gateway = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkContext._active_spark_context = None  # noqa: SLF001

    def _build(self) -> SparkContext:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        _quiet_py4j()
        self._folder.mkdir(parents=True, exist_ok=True)
        os.environ["JAVA_HOME"] = str(java_home(self._folder / "java"))
        if self._is_local:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        else:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf().setMaster(self._master).setAppName("datamon").setAll(list(self._settings().items()))
        with (self._folder / "spark.log").open("ab") as log:
            launch: Any = launch_gateway
            self._gateway = launch(conf=conf, popen_kwargs={"stdout": log, "stderr": log})
        spark = SparkContext(conf=conf, gateway=self._gateway)
        if not self._is_local:
            spark.addPyFile(str(self._packed()))
        return spark

    @property
    def _is_local(self) -> bool:
        return self._master.startswith("local")

    def _packed(self) -> Path:
        """The domain library as a file that Spark hands to its executors: tasks use nothing else of ours."""
        top = Path(datamon.core.__file__).parent.parent
        packed = self._folder / "datamon.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in sorted(top.rglob("*.py")):
                archive.write(file, file.relative_to(top.parent))
        return packed

    def _settings(self) -> dict[str, str]:
        log4j = self._folder / "log4j2.properties"
        log4j.write_text(_LOG4J)
        java_options = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
        settings = {
            "spark.scheduler.mode": "FAIR",  # a small split does not wait for a large one
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(self._folder / "scratch"),
        }
        if self._is_local or self._master.startswith("spark://"):
            # Between a JVM and its Python processes: over TCP, each message would wait 40 ms for an acknowledgement.
            # With other masters spark-defaults.conf decides: in a container of YARN the paths of sockets are too long.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
        if self._is_local:
            settings["spark.python.unix.domain.socket.dir"] = self._socket_folder()
            # The JVM only hands out tasks here, so it may compile lightly and collect simply: it starts sooner.
            java_options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        if self._is_local or self._master.startswith(("spark://127.0.0.1:", "spark://localhost:")):
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        for name in _EXECUTORS_NEED:
            if os.environ.get(name) and not self._is_local:
                settings[f"spark.executorEnv.{name}"] = os.environ[name]
        return settings | {"spark.driver.extraJavaOptions": java_options}

    def _socket_folder(self) -> str:
        """A folder that nobody else can look into. Paths of sockets must be short, so the folder may be temporary."""
        own = self._folder / "sockets"
        if len(os.fsencode(own)) <= SOCKET_FOLDER:
            own.mkdir(mode=0o700, exist_ok=True)
            return str(own)
        self._sockets = TemporaryDirectory(prefix="datamon-", dir="/tmp")
        return self._sockets.name


def _await_end(jvm: subprocess.Popen[bytes]) -> None:
    """Close the standard input of the JVM, which ends it, and kill it if it does not end."""
    with suppress(OSError):
        if jvm.stdin is not None:
            jvm.stdin.close()
    try:
        jvm.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
