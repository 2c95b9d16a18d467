"""Commands that the server of a home runs: nobody can tell them from others, other than by a clock."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import BIN, Command, as_an_ordinary_user, until

WAYS = {"warm": {}, "in its own process": {"DATAMON_NO_FORK": "1"}}
SDK = "temporal_sdk_bridge"  # what a process has loaded that talks to Temporal itself


def server_of(home):
    """The process that runs the commands of a home; None if there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if b"datamon.starter.warm.server" in words and str(home).encode() in words:
                own = Path(f"/proc/{parent}/cmdline")
                if own.exists() and b"datamon.starter.warm.server" not in own.read_bytes():
                    return int(entry.name)
    return None


def answers(home):
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(home / "warm" / "socket"))
        except OSError:
            return False
    return True


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A stack of its own, whose server is killed here, and a command that uses it."""
    command = Command(tmp_path_factory.mktemp("w"))
    command("up", "--detach")
    command("repo", "create", "--repo", "r")
    until(lambda: answers(command.home))
    yield command
    command("down")


@pytest.fixture(params=WAYS)
def either(warm, request):
    """The command, each way."""
    return Command(warm.home, WAYS[request.param])


@pytest.fixture(scope="module")
def bundle(warm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for number in range(3000):
        (folder / f"f{number:04d}").write_text(f"{number}\n" * 20)
    return ("--repo", "r", "--bundle", warm("bundle", "upload", "--repo", "r", "--path", str(folder), "--message", "m"))


def test_the_same_is_printed_and_the_same_code_returned(warm, bundle):
    for args in (
        ("repo", "list"),
        ("repo", "list", "--format", "json"),
        ("bundle", "get", *bundle),
        ("bundle", "get", "--repo", "r", "--bundle", "nothing"),
        ("bundle", "get", "--repo", "r"),
        ("bundle", "get", "--help"),
        ("--version",),
        ("no-such-command",),
        (),
        ("repo", "create", "--repo", "r"),
        ("--store", "/nowhere/at/all", "repo", "list"),
    ):
        told = []
        for more in WAYS.values():
            with Command(warm.home, more).popen(*args) as process:
                told.append((*process.communicate(timeout=60), process.returncode))
        assert told[0] == told[1], args


def test_a_warm_command_has_loaded_nothing_itself(warm, sparse):
    diamond = warm("diamond", "initialize", "--repo", "r")
    where = ("--repo", "r", "--diamond", diamond)
    for way, more in WAYS.items():
        with Command(warm.home, more).popen("diamond", "add", *where, "--path", sparse(400)) as adding:
            assert adding.stdout.readline()
            assert (SDK in Path(f"/proc/{adding.pid}/maps").read_text()) == (way != "warm")
            adding.send_signal(signal.SIGINT)
            adding.communicate(timeout=60)
    warm("diamond", "cancel", *where)


def test_folder_umask_and_environment_are_those_of_the_caller(either, bundle, tmp_path):
    done = subprocess.run(
        [BIN / "datamon", "bundle", "download", *bundle, "--destination", "out", "--name-filter", "f000"],
        env=either.environment,
        cwd=tmp_path,
        umask=0o077,
        check=True,
        capture_output=True,
    )
    assert b"10 files" in done.stderr
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    named = Command(either.home, either.more | {"DATAMON_CONTRIBUTOR": "Grace <grace@example.org>"})
    made = named.json("bundle", "upload", "--repo", "r", "--path", str(tmp_path / "out"), "--message", "m")
    about = either.json("bundle", "get", "--repo", "r", "--bundle", made if isinstance(made, str) else made["bundle"])
    assert about["contributors"] == [{"name": "Grace", "email": "grace@example.org"}]


def test_limits_are_those_of_the_caller(either, bundle, tmp_path):
    def limit():
        as_an_ordinary_user()
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))

    command = [BIN / "datamon", "bundle", "download", *bundle, "--destination", str(tmp_path / "out")]
    done = subprocess.run(
        command, env=either.environment, preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "too large" in done.stderr.lower()


def test_files_and_pipes_are_those_of_the_caller(either, bundle, tmp_path):
    """A list on stdin, one that the shell opened under a number, and a reader that has seen enough."""
    source = tmp_path / "source"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(name)
    add = f"{BIN}/datamon diamond add --repo r --diamond $(datamon diamond initialize --repo r) --path {source}"
    for script, code, out in (
        (f"printf 'a\\nb\\n' | {add} --files -", 0, ": 2 files, 2 B"),
        (f"{add} --files <(echo c)", 0, ": 1 file, 1 B"),
        (f"set -o pipefail; {BIN}/datamon bundle list files {' '.join(bundle)} | head -1", 0, "NAME"),
        (f"{BIN}/datamon repo list >&-", 0, ""),
        (f"{BIN}/datamon repo list > /dev/full", 1, ""),
    ):
        done = subprocess.run(
            ["bash", "-c", script], env=either.environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, out in done.stdout + done.stderr) == (code, True), (script, done)
        assert "Traceback" not in done.stderr


@pytest.fixture
def adding(either, sparse):
    """A command that runs until somebody stops it."""
    where = ("--repo", "r", "--diamond", either("diamond", "initialize", "--repo", "r"))
    with either.popen("diamond", "add", *where, "--path", sparse(400)) as process:
        assert process.stdout.readline()
        yield process
        process.kill()
    either("diamond", "cancel", *where)


def test_ctrl_c_stops_what_the_command_does(adding):
    adding.send_signal(signal.SIGINT)
    _, err = adding.communicate(timeout=60)
    assert adding.returncode == 130
    assert err.strip().endswith("datamon: interrupted")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_that_ends_the_command_is_its_end(adding, number):
    adding.send_signal(number)
    assert adding.wait(60) == -number


def test_a_command_that_is_killed_has_its_end(warm, sparse):
    """By the system, say, because memory is short: it kills the process that does the work."""
    where = ("--repo", "r", "--diamond", warm("diamond", "initialize", "--repo", "r"))
    with warm.popen("diamond", "add", *where, "--path", sparse(400)) as process:
        assert process.stdout.readline()
        _, command = descendants(server_of(warm.home))
        os.kill(command, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert "Traceback" not in err
    warm("diamond", "cancel", *where)


def test_a_command_stops_with_a_caller_that_is_stopped(warm, sparse):
    """By SIGSTOP, of which nobody is told."""
    where = ("--repo", "r", "--diamond", warm("diamond", "initialize", "--repo", "r"))
    with warm.popen("diamond", "add", *where, "--path", sparse(400)) as process:
        assert process.stdout.readline()
        _, command = descendants(server_of(warm.home))
        process.send_signal(signal.SIGSTOP)
        until(lambda: state_of(command) == "T")
        process.send_signal(signal.SIGCONT)
        until(lambda: state_of(command) != "T")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    warm("diamond", "cancel", *where)


def test_a_server_that_is_stopped_delays_a_command_and_keeps_nothing_open(warm):
    server = server_of(warm.home)
    os.kill(server, signal.SIGSTOP)
    try:
        assert warm.json("repo", "list")
        script = f"{BIN}/datamon repo list | cat"
        subprocess.run(["bash", "-c", script], env=warm.environment, stdout=subprocess.PIPE, timeout=30, check=True)
    finally:
        os.kill(server, signal.SIGCONT)


def test_files_with_numbers_that_the_server_could_not_have_are_handed_over(either, bundle):
    def many_files():
        as_an_ordinary_user()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        os.dup2(1, most - 1)

    command = [BIN / "datamon", "bundle", "get", *bundle]
    done = subprocess.run(
        command, env=either.environment, preexec_fn=many_files, close_fds=False, capture_output=True, check=False
    )
    assert done.returncode == 0, done


def test_a_question_is_asked_by_a_process_of_the_terminal(warm):
    """Of another session, it would read from the terminal also where it is in the background."""
    bundle = warm("bundle", "upload", "--repo", "r", "--path", __file__, "--message", "m")
    words = f"{BIN}/datamon bundle delete --repo r --bundle {bundle} --reason test"
    pid, terminal = os.forkpty()
    if pid == 0:
        os.execve("/bin/sh", ["sh", "-c", words], warm.environment)
    said = b""
    while b"?" not in said:
        said += os.read(terminal, 1000)
    assert not descendants(server_of(warm.home))
    os.write(terminal, b"y\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_worker_starts_where_there_can_be_no_server(tmp_path):
    """Somebody else has the folder, or the disk is full."""
    command = Command(tmp_path / "home")
    command.home.mkdir()
    (command.home / "warm").write_text("in the way")
    command("up", "--detach")
    try:
        assert command.json("repo", "list") == []
        assert "commands on this host take as long as ever" in (command.home / "up.log").read_text()
    finally:
        command("down")


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_ctrl_z_stops_it_until_it_is_continued(either, sparse):
    """It has a group of its own, as shells give it: the system stops only what somebody could continue."""
    where = ("--repo", "r", "--diamond", either("diamond", "initialize", "--repo", "r"))
    with either.popen("diamond", "add", *where, "--path", sparse(400), process_group=0) as adding:
        assert adding.stdout.readline()
        adding.send_signal(signal.SIGTSTP)
        until(lambda: state_of(adding.pid) == "T")
        adding.send_signal(signal.SIGCONT)
        until(lambda: state_of(adding.pid) != "T")
        adding.send_signal(signal.SIGINT)
        adding.communicate(timeout=60)
        assert adding.returncode == 130
    either("diamond", "cancel", *where)


def test_what_nobody_could_continue_is_not_stopped(either, sparse):
    """A process in a session of its own: nobody there would ever continue it."""
    where = ("--repo", "r", "--diamond", either("diamond", "initialize", "--repo", "r"))
    with either.popen("diamond", "add", *where, "--path", sparse(400), start_new_session=True) as process:
        assert process.stdout.readline()
        process.send_signal(signal.SIGTSTP)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    either("diamond", "cancel", *where)


def test_a_signal_that_the_caller_ignores_is_ignored(either, sparse):
    where = ("--repo", "r", "--diamond", either("diamond", "initialize", "--repo", "r"))
    words = " ".join(("diamond", "add", *where, "--path", sparse(400)))
    script = f"trap '' HUP; exec {BIN}/datamon {words}"
    with subprocess.Popen(["bash", "-c", script], env=either.environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    either("diamond", "cancel", *where)


def descendants(pid):
    """The processes below a process."""
    below = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                below += [int(entry.name), *descendants(int(entry.name))]
    return below


def test_a_command_whose_caller_is_killed_goes_too(warm, sparse):
    where = ("--repo", "r", "--diamond", warm("diamond", "initialize", "--repo", "r"))
    server = server_of(warm.home)
    with warm.popen("diamond", "add", *where, "--path", sparse(400)) as process:
        assert process.stdout.readline()
        assert len(descendants(server)) == 2, "a guard and the command"
        process.kill()
    until(lambda: not descendants(server))
    warm("diamond", "cancel", *where)


def test_a_server_that_is_killed_in_the_middle_is_missed_by_nobody(warm, sparse):
    where = ("--repo", "r", "--diamond", warm("diamond", "initialize", "--repo", "r"))
    with warm.popen("diamond", "add", *where, "--path", sparse(400)) as process:
        assert process.stdout.readline()
        os.kill(server_of(warm.home), signal.SIGKILL)
        until(lambda: not answers(warm.home))
        assert warm("repo", "list", "--format", "json"), "a command does without"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err.strip().splitlines()[-1]) == (130, "datamon: interrupted")
    warm("diamond", "cancel", *where)
    warm("down")
    assert not answers(warm.home)
    warm("up", "--detach")
    until(lambda: answers(warm.home))


def test_the_next_worker_takes_over(warm, tmp_path):
    """Two workers share a home: the server of the second waits until the first has gone."""
    first = server_of(warm.home)
    code = "import sys; from datamon.starter.warm.server import main; main()"
    with subprocess.Popen([sys.executable, "-c", code, str(warm.home)], stderr=subprocess.PIPE) as second:
        os.kill(first, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{first}").exists() or state_of(first) == "Z")
        until(lambda: answers(warm.home))
        assert warm.json("repo", "list")
        second.terminate()
    until(lambda: not answers(warm.home))
    assert warm.json("repo", "list")
    warm("down")
    warm("up", "--detach")
    until(lambda: answers(warm.home))


def test_many_commands_at_once(warm):
    with ThreadPoolExecutor(40) as threads:
        diamonds = list(threads.map(lambda _: warm("diamond", "initialize", "--repo", "r"), range(40)))
    assert len(set(diamonds)) == 40


def test_a_program_that_is_to_run_differently_runs_in_its_own_process(warm):
    """What Python reads once, when it starts, cannot be changed later."""
    server = server_of(warm.home)
    odd = Command(warm.home, {"PYTHONDEVMODE": "1"})
    with odd.popen("diamond", "list", "--repo", "r", "--format", "json") as process:
        out, _ = process.communicate(timeout=60)
    assert isinstance(json.loads(out), list)
    assert server_of(warm.home) == server


def test_nobody_else_is_served(warm):
    folder = warm.home / "warm"
    assert folder.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:  # only root can be somebody else
        connect = f"socket.socket(socket.AF_UNIX).connect({str(folder / 'socket')!r})"
        script = f"import os, socket; os.setgid(65534); os.setuid(65534); {connect}"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr


def test_a_server_in_a_folder_that_others_can_write_to_is_not_asked(tmp_path):
    home = tmp_path / "home"
    (home / "warm").mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(home / "warm" / "socket"))
        trap.listen()
        trap.settimeout(0)
        (home / "warm").chmod(0o770)
        Command(home)("--version")
        with pytest.raises(BlockingIOError):  # nobody asked it
            trap.accept()


def test_a_request_that_makes_no_sense_is_nobodys_end(warm):
    for sent in (b"", b"x", b"\xff" * 8, (5).to_bytes(8, "little") + b"abcde", (10**12).to_bytes(8, "little")):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(warm.home / "warm" / "socket"))
            asking.sendall(sent)
            asking.shutdown(socket.SHUT_WR)
            asking.settimeout(30)
            assert asking.recv(10) == b""
    assert warm.json("repo", "list")
