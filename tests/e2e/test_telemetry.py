"""What a worker tells of itself: logs, metrics, traces."""

import json
import re
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.conftest import Command, until
from tests.servers import free_ports


class Collector(BaseHTTPRequestHandler):
    """Takes what is sent by OTLP. Names stand in it as they are."""

    got = b""

    def do_POST(self):
        Collector.got += self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A stack that tells everything, after a diamond with a conflict, a failed split and a bundle."""
    folder, [port] = tmp_path_factory.mktemp("telemetry"), free_ports(1)
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        more = {
            "DATAMON_METRICS": f"127.0.0.1:{port}",
            "DATAMON_LOG_FORMAT": "json",
            "DATAMON_TRACING": f"http://127.0.0.1:{collector.server_port}/v1/traces",
        }
        command = Command(folder / "home", more)
        command("up", "--detach")
        try:
            story(command, folder)
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        finally:
            command("down")
        until(lambda: b"RunActivity:make_bundle" in Collector.got)
        collector.shutdown()
    lines = (command.home / "up.log").read_text().splitlines()
    return metrics, [json.loads(line) for line in lines if line.startswith("{")], Collector.got


def story(command, folder):
    repo = command("repo", "create", "--repo", "weather")
    where = ("--repo", repo, "--diamond", command("diamond", "initialize", "--repo", repo, "--diamond", "d1"))
    for split, text in (("s1", "one"), ("s2", "two")):
        (folder / split).mkdir()
        (folder / split / "a").write_text(text)
        command("diamond", "add", *where, "--path", str(folder / split), "--split", split, "--create")
    (folder / "s3").mkdir()
    (folder / "s3" / "link").symlink_to("/etc/passwd")
    command.run("diamond", "add", *where, "--path", str(folder / "s3"), "--split", "s3", "--create", exit_code=1)
    command("diamond", "commit", *where, "--message", "m")


def counted(metrics, name, **labels):
    """The sum of a metric over all rows with these labels."""
    rows = [line for line in metrics.splitlines() if re.match(rf"{name}\{{", line)]
    fit = [row for row in rows if all(f'{label}="{value}"' in row for label, value in labels.items())]
    return sum(float(row.rpartition(" ")[2]) for row in fit)


def test_metrics_count_splits_bytes_conflicts_and_commits(told):
    metrics, _, _ = told
    assert [counted(metrics, "datamon_splits_total", state=state) for state in ("running", "done", "failed")] == [
        3,
        2,
        1,
    ]
    assert counted(metrics, "datamon_files_total", repo="weather") == 2
    assert counted(metrics, "datamon_stored_bytes_total", repo="weather") == 6
    assert counted(metrics, "datamon_deduplicated_bytes_total", repo="weather") == 0
    assert counted(metrics, "datamon_conflicts_total", repo="weather") == 1
    assert counted(metrics, "datamon_commit_seconds_count", repo="weather") == 1
    assert counted(metrics, "temporal_workflow_completed_total") > 0


def test_log_lines_say_which_repo_diamond_and_split(told):
    _, log, _ = told
    assert {line["level"] for line in log} <= {"info", "warning"}
    about = {(line.get("diamond"), line.get("split")): line["message"] for line in log if line.get("repo") == "weather"}
    assert about["d1", "s1"] == "done: 1 files, 3 bytes, 3 newly stored"
    assert "leads out of the source" in about["d1", "s3"]
    assert about["d1", None] == "done"


def test_traces_lead_from_the_command_to_the_activities(told):
    _, _, traces = told
    for name in (b"SignalWorkflow:add", b"HandleSignal:add", b"StartActivity:upload_split", b"RunActivity:make_bundle"):
        assert name in traces, name


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("DATAMON_LOG_FORMAT", "xml", "the log format is 'xml'; use text or json"),
        ("DATAMON_LOG_LEVEL", "loud", "the log level is 'loud'"),
        ("DATAMON_METRICS", "nonsense", "metrics cannot be served at 'nonsense'"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_starts(stack, tmp_path, variable, value, sentence):
    worker = stack.of_another_host(tmp_path / "home", "h")
    worker.more[variable] = value
    assert sentence in worker.refused("worker", exit_code=2)
