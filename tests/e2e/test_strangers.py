"""What strangers can get at: nothing is told that is secret, and nobody listens who need not."""

import os
import re
import socket
import struct
from pathlib import Path

import pytest

from datamon.settings.stack import running_stack
from tests.conftest import Command, until
from tests.e2e.test_encryption import everything, key

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.fixture(scope="module")
def secrets(s3):
    """Every secret that a user can give it, by the variable that holds it."""
    return {
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_SESSION_TOKEN": "PLANTED-session-token",
        "DATAMON_ENCRYPTION_KEY": key(),
        "TEMPORAL_API_KEY": "PLANTED-temporal-key",
        "DATAMON_TRACING": "http://me:PLANTED-tracing-password@127.0.0.1:9/v1/traces",
    }


@pytest.fixture(scope="module", params=["histories in the clear", "histories encrypted"])
def planted(request, s3, secrets, tmp_path_factory):
    """A stack that has all but those that lead elsewhere, with its log as chatty as can be."""
    chatty = {
        "DATAMON_STORE": f"{s3.new_place()}/store",
        "DATAMON_LOG_LEVEL": "debug",
        "DATAMON_METRICS": "127.0.0.1:0",
    }
    elsewhere = {"AWS_SESSION_TOKEN", "TEMPORAL_API_KEY"}
    if request.param == "histories in the clear":
        elsewhere.add("DATAMON_ENCRYPTION_KEY")
    given = {name: value for name, value in secrets.items() if name not in elsewhere}
    command = Command(tmp_path_factory.mktemp("home"), chatty | given)
    command.run("up", "--detach")
    yield command
    command("down")


def words(secrets):
    """What must be seen nowhere. A URL may be, without its password."""
    found = [value for name, value in secrets.items() if name != "DATAMON_TRACING"]
    return [*found, "PLANTED-tracing-password"]


def leaks(text, secrets):
    return [word for word in words(secrets) if word.encode() in text]


def processes():
    return {path.parent.name: path for path in Path("/proc").glob("[0-9]*/cmdline")}


def lines_of(paths):
    for path in paths:
        try:
            yield path.read_bytes()
        except OSError:
            continue


async def test_secrets_are_told_nowhere(planted, secrets, files, tmp_path):
    said = []

    def run(*args, exit_code=0, command=planted):
        with command.popen(*args) as process:
            told = lines_of(processes().values())  # while it runs
            assert leaks(b"\n".join(told), secrets) == []
            out, err = process.communicate(timeout=100)
        assert process.returncode == exit_code, err
        said.append(out + err)
        return out.strip()

    run("repo", "create", "--repo", "r")
    where = ("--repo", "r", "--diamond", run("diamond", "initialize", "--repo", "r"))
    run("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    os.mkfifo(tmp_path / "p" / "pipe")
    run("--debug", "diamond", "add", *where, "--path", str(tmp_path / "p"), exit_code=1)
    run("diamond", "commit", *where, "--message", "m")
    run("diamond", "report", *where, "--output", str(tmp_path / "report.html"))
    run("config", "show")
    run("config", "show", "--format", "json")
    run("status")
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "TEMPORAL_API_KEY"):
        wrong = Command(planted.home, planted.more | {name: secrets[name] + "-wrong", "AWS_ENDPOINT_URL_S3": ""})
        with wrong.popen("--debug", *(("status",) if name == "TEMPORAL_API_KEY" else ("repo", "list"))) as process:
            said.append("".join(process.communicate(timeout=100)))
    kept = await everything(running_stack(planted.home).address)
    logs = b"".join(path.read_bytes() for path in planted.home.rglob("*") if path.is_file() and not path.is_socket())
    report = (tmp_path / "report.html").read_bytes()
    assert b"pipe" in logs, "what is looked at is what was meant"
    assert b"pipe" in report
    assert (b"pipe" in kept) == ("DATAMON_ENCRYPTION_KEY" not in planted.more)
    seen = {"output": "\n".join(said).encode(), "history": kept, "files": logs, "report": report}
    assert {name: leaks(text, secrets) for name, text in seen.items() if leaks(text, secrets)} == {}


def listening(pids):
    """The addresses at which some processes listen, by TCP and by UDP."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(handle)))
            except OSError:
                continue
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            waits = fields[3] == ("0A" if kind.startswith("tcp") else "07")
            if waits and fields[9] in inodes:
                found.add((kind, address(fields[1].split(":")[0]), int(fields[1].split(":")[1], 16)))
    return found


def has_udp(found):
    return found if "udp" in {kind for kind, _, _ in found} else None


def address(told):
    """An address as the kernel writes it: words of four bytes, each in the order of this machine."""
    raw = b"".join(struct.pack("=I", int(told[at : at + 8], 16)) for at in range(0, len(told), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def family(command):
    """The processes of a stack: whoever has its home in its environment."""
    mark = f"DATAMON_HOME={command.home}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_nothing_listens_beyond_this_machine(planted, sparse):
    where = ("--repo", "r", "--diamond", planted("diamond", "initialize", "--repo", "r"))
    with planted.popen("diamond", "add", *where, "--path", sparse(8)) as upload:  # Spark and its tasks are at work
        seen = until(lambda: has_udp(listening(family(planted))))
        upload.terminate()
        upload.communicate(timeout=60)
    planted("diamond", "cancel", *where)
    assert len(seen) > 4
    assert {where for _, where, _ in seen} <= LOOPBACK
