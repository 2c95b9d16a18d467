"""What the tests share: one real stack a run, and a way to call the command."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import hypothesis
import pytest

from datamon.settings.settings import Settings
from datamon.settings.stack import is_stack_alive, running_stack
from datamon.starter.client import Datamon
from datamon.worker.spark import SparkRuntime
from tests.java_archive import use_archive
from tests.servers import S3Server, start_s3, used_together

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24
BIN = Path(sys.executable).parent
NO_FORK = (
    {"DATAMON_NO_FORK": "1"} if os.environ.get("DATAMON_NO_FORK") else {}
)  # all tests but test_warm hold either way
LONGEST = ("test_faults", "test_content", "test_many", "test_stack", "test_bad_input", "test_cluster", "test_upgrade")
QUICK = ("unit", "property")


def as_an_ordinary_user():
    """Root may read everything. Take that right away, so that an unreadable file is one in a container too.

    A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start there.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


hypothesis.settings.register_profile("any machine", deadline=None)  # how long an example takes is no test's business
hypothesis.settings.load_profile("any machine")


def pytest_configure(config):
    """The process that starts all others sees to it that their Sparks start sooner."""
    if not hasattr(config, "workerinput"):
        making = use_archive()
        if making is not None:
            config.add_cleanup(making.wait)
            config.add_cleanup(making.kill)


def pytest_collection_modifyitems(items):
    """What takes longest comes first and what is quick comes last, so that nobody waits for one file in the end."""

    def rank(item):
        file = item.path.stem
        return LONGEST.index(file) if file in LONGEST else len(LONGEST) + (item.path.parent.name in QUICK)

    items[:] = sorted((item for item in items if not (NO_FORK and item.path.stem == "test_warm")), key=rank)


@dataclass
class Command:
    """The command `datamon` with a home of its own."""

    home: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATAMON_", "TEMPORAL_"))}
        kept |= NO_FORK
        return kept | {
            "DATAMON_HOME": str(self.home),
            "DATAMON_CONTRIBUTOR": "Ada Test <ada@example.org>",
            "PATH": f"{BIN}{os.pathsep}{kept['PATH']}",
            **self.more,
        }

    def popen(self, *args, **options):
        return subprocess.Popen(
            [BIN / "datamon", *args],
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=as_an_ordinary_user,
            **options,
        )

    def run(self, *args, exit_code=0, **options):
        with self.popen(*args, **options) as process:
            out, err = process.communicate(timeout=100)
        assert process.returncode == exit_code, f"{args} ended with {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def __call__(self, *args):
        """What a command that succeeds prints on stdout."""
        return self.run(*args).stdout.strip()

    def json(self, *args):
        return json.loads(self(*args, "--format", "json"))

    def refused(self, *args, exit_code):
        """The one sentence that a command says when it refuses. It never is a traceback."""
        done = self.run(*args, exit_code=exit_code)
        assert done.stdout == ""
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("datamon: ")
        return lines[0]

    def settings(self):
        return Settings.load(self.environment)

    def of_another_host(self, home, name):
        """The command as it is on a host with this name, with the same server and store."""
        address = running_stack(self.home).address
        shared = {"TEMPORAL_ADDRESS": address, "DATAMON_STORE": self.settings().store, "DATAMON_HOST": name}
        return Command(home, shared)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, request):
    """A folder that all processes of this test run know."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def stack(shared_folder):
    """A running `datamon up`, and the command that talks to it."""

    def start(home):
        Command(home)("up", "--detach")
        return str(home)

    def stop(home):
        Command(Path(home))("down")
        assert not is_stack_alive(Path(home))

    with used_together(shared_folder, "stack", start, stop) as home:
        yield Command(Path(home))


@pytest.fixture
def housekeeping_schedule(shared_folder):
    """There is one schedule of housekeeping on the shared stack. Whoever changes it has it alone meanwhile."""
    with (shared_folder / "schedule.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def s3(shared_folder):
    """A running S3 server. Its credentials are in the environment of the tests, and of what they start."""

    def start(folder):
        return json.dumps(asdict(start_s3(folder)))

    with used_together(shared_folder, "s3", start, lambda known: S3Server(**json.loads(known)).stop()) as known:
        server = S3Server(**json.loads(known))
        os.environ.update(server.environment)
        yield server
        for name in server.environment:
            del os.environ[name]


@pytest.fixture
def place(s3):
    """An s3:// URL of a test's own."""
    return s3.new_place()


@pytest.fixture(scope="session")
async def datamon(stack):
    """A client of the running stack."""
    async with await Datamon.connect(stack.settings()) as client:
        yield client


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A Spark in the tests' own process."""
    runtime = SparkRuntime("local[2]", tmp_path_factory.mktemp("spark"))
    runtime.warm_up()
    yield runtime
    runtime.stop()


@pytest.fixture(scope="session")
def weather(stack):
    """The repo of the docs, which whoever comes first makes."""
    with stack.popen("repo", "create", "--repo", "weather") as process:
        process.communicate(timeout=60)
    assert process.returncode in (0, 4)
    return "weather"


@pytest.fixture
def repo(stack, request):
    """A repo of a test's own."""
    name = f"r{abs(hash(request.node.nodeid)) % 10**12}"
    return stack("repo", "create", "--repo", name)


@pytest.fixture
def files(tmp_path):
    """Writes a folder of files, given as {name: text or bytes}."""

    def write(folder, contents):
        for name, content in contents.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        (tmp_path / folder).mkdir(exist_ok=True)
        return str(tmp_path / folder)

    return write


@pytest.fixture
def sparse(tmp_path):
    """Makes a file so large, and so empty, that it takes long to read and no time to write."""

    def make(gib):
        path = tmp_path / "large"
        with path.open("wb") as file:
            file.truncate(gib << 30)
        return str(path)

    return make


@contextmanager
def closed(folder):
    """While the block runs, a folder of a store cannot be entered, as on a disk that fails."""
    kept = folder.with_name(f"{folder.name}.kept")
    if folder.exists():
        folder.rename(kept)
    folder.symlink_to(folder.name)
    try:
        yield
    finally:
        folder.unlink()
        if kept.exists():
            kept.rename(folder)


def tree(folder):
    """The files below a folder, as {name: text}, without datamon's own record of the bundle."""
    found = {str(path.relative_to(folder)): path.read_text() for path in Path(folder).rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if not name.startswith(".datamon/")}


def until_it_says(process, words):
    """What a process says on stderr, up to a line with these words."""
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            break
    return said


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found
