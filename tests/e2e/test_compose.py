"""docker-compose.yml: what it promises, and its commands as they stand there, run without containers.

No container engine runs here. So each service of ours has a loopback address in the place of its name, and its command
and environment are taken from the file. PostgreSQL and the Temporal that keeps its state there are not run: the
embedded server takes their place.
"""

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import pytest
import yaml
from botocore.exceptions import BotoCoreError

from datamon.worker.java import java_home
from tests.conftest import BIN, Command, until
from tests.e2e.plain_server import plain_server

TOP = Path(__file__).parents[2]
SECRETS = {"POSTGRES_PASSWORD": "of-postgres", "S3_ACCESS_KEY": "an-access-key", "S3_SECRET_KEY": "a-secret-key"}
TEXT = (TOP / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
OURS = ("AWS_", "DATAMON_", "TEMPORAL_")
ENDING = {"temporal-schema", "temporal-setup", "bucket"}  # these do something and end
ADDRESSES = {"seaweedfs": "127.0.77.1", "spark-master": "127.0.77.2", "0.0.0.0": "127.0.77.4"}


def filled(text, values):
    """A value with its variables, as compose fills them in."""

    def value(found):
        name, kind, other = found["name"], found["kind"], found["other"]
        if values.get(name):
            return values[name]
        if kind == ":?":
            raise KeyError(f"{name}: {other}")
        return other or ""

    return re.sub(r"\$\{(?P<name>\w+)(?:(?P<kind>:[?-])(?P<other>[^}]*))?\}", value, text).replace("$$", "$")


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_service_is_pinned_watched_and_started_in_order(name):
    service = COMPOSE["services"][name]
    image, _, tag = service["image"].partition(":")
    assert image == "datamon" or re.match(r"\d+\.\d+", tag), "an image of the day is another one tomorrow"
    assert ("healthcheck" in service) is (name not in ENDING)
    for other, how in service.get("depends_on", {}).items():
        assert how["condition"] == ("service_completed_successfully" if other in ENDING else "service_healthy")
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "nothing listens beyond this machine unless told to"
    for volume in service.get("volumes", []):
        assert volume.partition(":")[0] in COMPOSE["volumes"]


def test_no_secret_has_a_default():
    for name in SECRETS:
        for missing in ({}, {name: ""}):
            with pytest.raises(KeyError, match=f"{name}: set it in .env"):
                filled(TEXT, {other: value for other, value in SECRETS.items() if other != name} | missing)
    for name, value in re.findall(r"(\w*(?:PASSWORD|SECRET|_PWD|ACCESS_KEY)\w*): (.*)", TEXT):
        assert value.startswith("${"), name
    told = dict(re.findall(r"^(\w+)=(.*)$", (TOP / ".env.example").read_text(), re.MULTILINE))
    assert {name: told[name] for name in SECRETS} == dict.fromkeys(SECRETS, "")


def test_the_image_has_everything_it_copies():
    copied = re.findall(r"^COPY (.*) \S+$", (TOP / "Dockerfile").read_text(), re.MULTILINE)
    ignored = (TOP / ".dockerignore").read_text()
    for name in shlex.split(" ".join(copied)):
        assert (TOP / name).exists()
        assert f"!{name}\n" in ignored


class Native:
    """Services of the file, as processes of this machine."""

    def __init__(self, folder, temporal):
        self.folder, self.temporal = folder, temporal
        self.java = str(java_home(folder / "java"))
        identities = folder / "identities.json"
        identities.write_text(self.native(COMPOSE["configs"]["identities"]["content"]))
        (folder / "data").mkdir()
        self.places = {"/data": str(folder / "data"), "/etc/seaweedfs/identities.json": str(identities)}

    def native(self, text):
        """A word with addresses in the place of hosts: `host:7077`, `-ip=host`, or the host alone."""
        for name, address in ADDRESSES.items():
            text = re.sub(
                rf"(?<![\w-]){re.escape(name)}(?=:\d)|(?<==){re.escape(name)}$|^{re.escape(name)}$", address, text
            )
        return filled(text.replace("temporal:7233", self.temporal), SECRETS)

    def environment(self, name):
        service = COMPOSE["services"][name].get("environment", {})
        kept = {v: t for v, t in os.environ.items() if not v.startswith(OURS)}
        ours = {"PATH": f"{BIN}:{kept['PATH']}", "JAVA_HOME": self.java, "SPARK_NO_DAEMONIZE": "1"}
        told = {variable: self.native(str(value)) for variable, value in service.items()}
        return kept | ours | {"DATAMON_HOME": str(self.folder / name)} | told

    def command(self, name):
        service = COMPOSE["services"][name]
        words = [self.native(word) for word in (*service.get("entrypoint", []), *service["command"])]
        for there, here in self.places.items():
            words = [re.sub(rf"(?<=[=]){re.escape(there)}$", here, word) for word in words]
        return words

    def run(self, name):
        done = subprocess.run(
            self.command(name), env=self.environment(name), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def running(self, name, *more):
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self.command(name), *more], env=self.environment(name), stdout=out, stderr=out, cwd=self.folder
            )
        try:
            yield log
        finally:
            process.terminate()
            try:
                process.wait(20 if name == "worker" else 1)  # the others are not ours, and some take very long
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def natives(tmp_path_factory):
    with ExitStack() as stack:
        native = Native(tmp_path_factory.mktemp("compose"), stack.enter_context(plain_server()))
        stack.enter_context(native.running("seaweedfs"))
        master = stack.enter_context(native.running("spark-master", "--webui-port", "0"))
        stack.enter_context(native.running("spark-worker", "--host", ADDRESSES["spark-master"], "--work-dir", "work"))
        environment = native.environment("bucket")
        until(lambda: answers(environment), 60)
        for name in ("bucket", "bucket", "temporal-setup"):  # what ends well, ends well twice
            native.run(name)
        until(lambda: "Registering worker" in master.read_text(), 60)
        worker = stack.enter_context(native.running("worker"))
        until(lambda: "serving datamon and datamon@compose" in worker.read_text(), 60)
        yield native


def answers(environment):
    session = boto3.session.Session(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    try:
        session.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1").list_buckets()
    except BotoCoreError:
        return False
    return True


def test_a_diamond_on_the_services_of_the_file(natives, tmp_path):
    """From S3 to S3, on the Spark cluster, by the worker of the file; asked for by a command with its environment."""
    told = {
        name: value
        for name, value in natives.environment("worker").items()
        if name.startswith(("AWS_", "DATAMON_", "TEMPORAL_"))
    }
    command = Command(tmp_path / "home", told | {"DATAMON_HOME": str(tmp_path / "home")})
    client = boto3.client(
        "s3",
        endpoint_url=told["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
    )
    for name in ("a", "b/c"):
        client.put_object(Bucket="datasets", Key=f"incoming/{name}", Body=name.encode())
    repo = command("repo", "create", "--repo", "weather")
    bundle = command("bundle", "upload", "--repo", repo, "--path", "s3://datasets/incoming", "--message", "m")
    assert [file["name"] for file in command.json("bundle", "list", "files", "--repo", repo, "--bundle", bundle)] == [
        "a",
        "b/c",
    ]
    healthy = [natives.native(word) for word in COMPOSE["services"]["worker"]["healthcheck"]["test"][1:]]
    assert subprocess.run(healthy, env=natives.environment("worker"), capture_output=True, check=False).returncode == 0
    log = (natives.folder / "worker.log").read_text()
    assert '"repo": "weather"' in log
    assert not any(secret in log for secret in SECRETS.values())
    assert sys.version_info[:2] == (3, 11) or "python:3.11" in (TOP / "Dockerfile").read_text()
