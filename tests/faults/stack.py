"""A stack whose every part is a process of its own, so that any of them can be killed, cut off, and started again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from datamon.settings.settings import Settings
from datamon.starter.client import Datamon
from datamon.stores.directory import DirectoryStore
from datamon.stores.s3 import _client
from datamon.worker.server import server_command
from tests.cluster import spark_cluster
from tests.conftest import Command, until
from tests.faults.s3 import faulty
from tests.faults.tcp import faulty_tcp
from tests.servers import BUCKET, free_ports, s3_server

HOST = "farm"


class Temporal:
    """The server, on a file."""

    def __init__(self, folder):
        self._folder = folder
        self._port, self._ui = free_ports(2)
        self.address = f"127.0.0.1:{self._port}"
        self._process = None

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        with (self._folder / "temporal.log").open("ab") as log:
            command = server_command(self._folder, self._port, self._ui)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._answers, 60)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def is_running(self):
        return self._process.poll() is None

    def _answers(self):
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


class FarmWorker:
    """`datamon worker`; on a farm with a way to the store and one to Temporal that nobody else uses."""

    def __init__(self, home, environment, s3=None, temporal=None):
        self.s3, self.temporal = s3, temporal
        self._command = Command(home, environment)
        self.log = home.with_suffix(".log")
        self._process = None

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).parent / "datamon", "worker"],
                env=self._command.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(lambda: b"serving" in self.log.read_bytes()[before:] or self._is_gone(), 60)

    def _is_gone(self):
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        return False

    def kill(self, *, whole):
        """Kill it; and with `whole`, at the same moment, its Spark and all tasks, as when a machine goes down."""
        for pid in reversed(self.family().values()) if whole else [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def is_running(self):
        return self._process.poll() is None

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill(whole=True)

    def family(self):
        """Its processes, by what they are."""
        found = {"worker": self.pid}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, IndexError, ValueError):
                after = path.read_text().rpartition(")")[2].split()
                if int(after[3]) == self.pid and int(path.parent.name) != self.pid:  # its session
                    is_java = "java" in (path.parent / "comm").read_text()
                    found["jvm" if is_java else f"python {path.parent.name}"] = int(path.parent.name)
        return found


class _Place:
    """Where a client finds what is served."""

    client: Command

    @property
    def settings(self) -> Settings:
        return self.client.settings()

    async def connect(self):
        return await Datamon.connect(self.settings)


class Farm(_Place):
    """Temporal, SeaweedFS, and two workers of one host, each behind proxies of its own."""

    cluster = None

    def __init__(self, folder, s3, temporal, parts, spark_master, count):
        self.folder, self.s3, self.temporal = folder, s3, temporal
        self.place = s3.new_place()
        self._bucket = s3.client()
        shared = {"DATAMON_STORE": f"{self.place}/store", "DATAMON_HOST": HOST, "DATAMON_SPARK_MASTER": spark_master}
        self._shared = shared | s3.environment
        self.workers = [self._worker(name, parts, self._shared) for name in ("one", "two")[:count]]
        self.client = Command(folder / "client", self._shared | {"TEMPORAL_ADDRESS": temporal.address})
        self._parts = parts

    def _worker(self, name, parts, environment):
        s3, tcp = parts.enter_context(faulty(self.s3)), parts.enter_context(faulty_tcp(self.temporal.address))
        ways = {"AWS_ENDPOINT_URL": s3.endpoint, "TEMPORAL_ADDRESS": tcp.address}
        return FarmWorker(self.folder / name, environment | ways, s3, tcp)

    def client_over(self, worker):
        """The command, with the way to the store that a worker has."""
        return Command(self.folder / "client", self.client.more | {"AWS_ENDPOINT_URL": worker.s3.endpoint})

    def extra_worker(self, name, environment):
        """One more worker, which is not yet started."""
        return self._worker(name, self._parts, self._shared | environment)

    def prefix(self, part):
        return f"{self.place.removeprefix(f's3://{BUCKET}/')}/{part}/"

    def read(self):
        """All objects of the store."""
        prefix, bucket = self.prefix("store"), self._bucket
        return {
            key.removeprefix(prefix): bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            for key in self._keys(prefix)
        }

    def clear(self):
        """Empty the store, and all sources beside it."""
        for key in self._keys(self.prefix("")[:-1]):
            self._bucket.delete_object(Bucket=BUCKET, Key=key)

    def lose(self, folder):
        """Lose all objects in a folder of the store."""
        for key in self._keys(self.prefix(f"store/{folder}")):
            self._bucket.delete_object(Bucket=BUCKET, Key=key)

    def caches(self):
        """What the workers remember of files."""
        return list(self.folder.glob("*/cache/*.sqlite"))

    def put(self, part, name, body):
        """Put an object of a source; gives its folder."""
        self._bucket.put_object(Bucket=BUCKET, Key=f"{self.prefix(part)}{name}", Body=body)

    def _keys(self, prefix):
        pages = self._bucket.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    async def quiet(self, worker, seconds=1.5):
        """Wait until nothing that a worker asked of the store is under way, and nothing was for a while."""
        while not worker.s3.is_quiet(seconds):  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.1)

    def mend(self):
        """Make it whole again, whatever a test that failed has left."""
        for worker in self.workers:
            worker.s3.down.clear()
            for hold in list(worker.s3.holds):
                worker.s3.end_hold(hold)
        if not self.temporal.is_running():
            self.temporal.start()
        for worker in self.workers:
            if not worker.is_running():
                worker.start()


@contextmanager
def farm(folder, *, on_cluster=False):
    """Run a whole farm as long as the block does; with a Spark cluster it has one worker, which takes all of that."""
    (folder / "s3").mkdir(parents=True)
    with ExitStack() as parts:
        s3 = parts.enter_context(s3_server(folder / "s3"))
        temporal = parts.enter_context(running_temporal(folder))
        before = {name: os.environ.get(name) for name in s3.environment}
        os.environ.update(s3.environment)  # for the client, which is in this process
        _client.cache_clear()  # of another farm, that was here before
        parts.callback(_restore, before)
        cluster = parts.enter_context(spark_cluster(folder)) if on_cluster else None
        built = Farm(folder, s3, temporal, parts, cluster.url if cluster else "local[2]", 1 if cluster else 2)
        built.cluster = cluster
        for worker in built.workers:
            worker.start()
            parts.callback(worker.stop)
        yield built


@contextmanager
def running_temporal(folder):
    """Run a Temporal server as long as the block does, however often it is killed in between."""
    temporal = Temporal(folder)
    temporal.start()
    try:
        yield temporal
    finally:
        temporal.kill()


class Cottage(_Place):
    """Temporal and one worker, on a small disk that has the store. What fills it lies beside the store."""

    def __init__(self, folder, temporal):
        self.folder, self.temporal = folder, temporal
        self.disk = folder / "disk"
        environment = {
            "DATAMON_STORE": str(self.disk / "store"),
            "DATAMON_HOST": HOST,
            "DATAMON_SPARK_MASTER": "local[2]",
            "TEMPORAL_ADDRESS": temporal.address,
        }
        self.client = Command(folder / "client", environment)
        self.workers = [FarmWorker(folder / "one", environment)]

    def fill(self, leave):
        """Leave so many bytes of the disk free."""
        free = os.statvfs(self.disk)
        (self.disk / "filler").write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave))

    def make_room(self):
        (self.disk / "filler").unlink(missing_ok=True)

    def a_day_later(self):
        """See to it that what killed writers have left is a day old, and that somebody writes then."""
        for store in (self.disk / "store").iterdir():
            for left in (store / ".datamon-store").glob("?" * 32):
                os.utime(left, (0, 0))
            DirectoryStore(store).create("probe", b"")
            DirectoryStore(store).delete("probe")

    def read(self):
        """All objects of the store, and whatever was left unfinished; but for the locks."""
        store = self.disk / "store"
        files = (path for path in store.rglob("*") if path.is_file() and path.parts[-2:] != (".datamon-store", "lock"))
        found = {}
        for path in files:
            with suppress(FileNotFoundError):  # a temporary one, of a task that lives on for a moment
                found[str(path.relative_to(store))] = path.read_bytes()
        return found

    def clear(self):
        shutil.rmtree(self.disk / "store")

    async def quiet(self, worker):
        """Its tasks are not behind a proxy: what they do shows on the disk."""
        seen = None
        while seen != (seen := sorted(self.read())):  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(1)


@contextmanager
def cottage(folder, disk_bytes):
    """Run it as long as the block does. It takes the right to mount: see `tests.faults.disk`."""
    (folder / "disk").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", folder / "disk"], check=True)
    with running_temporal(folder) as temporal:
        built = Cottage(folder, temporal)
        [worker] = built.workers
        worker.start()
        try:
            yield built
        finally:
            worker.stop()


def _restore(before):
    _client.cache_clear()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
