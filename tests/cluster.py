"""A real Spark cluster: a master and two workers out of the pyspark wheel, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from datamon.worker.java import java_home
from tests.conftest import until
from tests.servers import LOOPBACK, free_ports

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@dataclass
class Cluster:
    url: str
    work: Path

    def executors(self):
        """The processes of this cluster that run tasks."""
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if self._is_executor(path)]

    def _is_executor(self, path):
        try:
            return b"CoarseGrainedExecutorBackend" in path.read_bytes() and str(self.work) in os.readlink(
                path.parent / "cwd"
            )
        except OSError:
            return False

    def kill_executors(self):
        """Kill all of them; gives how many that were."""
        killed = self.executors()
        for executor in killed:
            os.kill(executor, signal.SIGKILL)
        until(lambda: not set(killed) & set(self.executors()), 20)
        return len(killed)


@contextmanager
def daemon(folder, name, *words):
    """One of Spark's own daemons, until the block ends; gives its log."""
    environment = os.environ | {
        "JAVA_HOME": str(java_home(folder / "java")),
        "SPARK_HOME": str(SPARK_CLASS.parent.parent),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
    }
    log = folder / f"{name}-{len(list(folder.glob('*.log')))}.log"
    command = [SPARK_CLASS, f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", LOOPBACK, *words]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=folder)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@contextmanager
def spark_cluster(folder):
    """Run it as long as the block does, with one core a worker. It has the credentials of our environment."""
    port, ui, *worker_uis = map(str, free_ports(4))
    url = f"spark://{LOOPBACK}:{port}"
    with ExitStack() as daemons:
        master = daemons.enter_context(daemon(folder, "Master", "--port", port, "--webui-port", ui))
        for worker_ui in worker_uis:
            work = str(folder / "work" / worker_ui)
            words = ("--webui-port", worker_ui, "--cores", "1", "--memory", "1g", "--work-dir", work, url)
            daemons.enter_context(daemon(folder, "Worker", *words))
        until(lambda: master.read_text().count("Registering worker") == 2, 60)
        yield Cluster(url, folder / "work")
