"""What `datamon status`, `up` and `doctor` say of a store and a server that cannot be used."""

import re
from pathlib import Path

from tests.conftest import Command, until
from tests.servers import free_ports

SKEWED = Path(__file__).parents[1] / "faults" / "skewed"


def test_a_doctor_who_finds_nothing(stack, repo):
    found = {one["what"]: one for one in stack.json("doctor")}
    assert all(one["ok"] for one in found.values()), found
    assert {"datamon", "java", "disk", "ports", "store", "writes", "server", "namespace", "worker"} <= set(found)
    assert " is store " in found["store"]["finding"]
    table = stack("doctor").splitlines()
    assert all(line.startswith("✓  ") for line in table[1:])


def test_a_doctor_who_finds_that_nothing_is_there(tmp_path):
    [port] = free_ports(1)
    environment = {"TEMPORAL_ADDRESS": f"127.0.0.1:{port}", "DATAMON_STORE": "s3://no/such"}
    command = Command(tmp_path / "home", environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **KEYS})
    done = command.run("doctor", exit_code=1)
    marks = {line.split()[1]: line[0] for line in done.stdout.splitlines()[1:]}
    assert (marks["store"], marks["server"], marks["java"]) == ("✗", "✗", "✓")
    assert "no answer from http://127.0.0.1" in done.stdout
    assert "start one with `datamon up` or set TEMPORAL_ADDRESS" in done.stdout


KEYS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",
}


def test_a_store_that_cannot_be_used_is_seen_before_anything_is_done(stack, tmp_path):
    (tmp_path / "store").write_text("no folder")
    command = Command(stack.home, {"DATAMON_STORE": str(tmp_path / "store")})
    done = command.run("status", exit_code=6)
    assert "store_problem: 'cannot use the store" in done.stdout
    assert "not a directory" in done.stderr


def test_a_worker_says_at_its_start_that_it_may_not_write(stack, tmp_path):
    (tmp_path / "store" / "metadata").mkdir(parents=True)
    Command(stack.home, {"DATAMON_STORE": str(tmp_path / "store")})("repo", "create", "--repo", "r")
    (tmp_path / "store" / "vmetadata").mkdir(exist_ok=True)
    (tmp_path / "store" / "vmetadata").chmod(0o500)
    other = stack.of_another_host(tmp_path / "home", "another")
    command = Command(tmp_path / "home", other.more | {"DATAMON_STORE": str(tmp_path / "store")})
    worker = command.popen("worker", "--queue", "datamon@another")
    try:
        lines = []
        until(lambda: lines.append(worker.stderr.readline()) or "warning" in lines[-1])
        assert f"warning: the store {tmp_path}/store/vmetadata refuses: permission denied" in lines[-1]
    finally:
        worker.terminate()
        worker.communicate(timeout=30)


def test_a_clock_that_is_wrong_is_seen_before_times_decide_who_wins(stack, s3, place):
    """Five minutes: a server refuses requests only if the clocks are a quarter of an hour apart."""
    skewed = {"PYTHONPATH": str(SKEWED), "SKEW_SECONDS": "300", "DATAMON_STORE": f"{place}/store"}
    command = Command(stack.home, s3.environment | skewed)
    remedy = r"differ by (299|300|301) s; synchronize this machine's clock with a time server"
    assert re.search(remedy, command.run("status", exit_code=6).stderr)
    [clock] = [one for one in command.run("doctor", exit_code=1).stdout.splitlines() if " clock " in one]
    assert clock.startswith("✗")
    assert re.search(remedy, clock)
