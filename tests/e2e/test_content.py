"""Content in S3 as a user meets it: sources, nothing twice, progress, kill -9, downloads, the short way."""

import os
import random
import re
import signal
import subprocess

import pytest

from datamon.content.chunking import AVERAGE_CHUNK
from datamon.settings.stack import running_stack
from datamon.sources.plan import SLICE_BYTES
from datamon.stores.context import open_context
from tests.conftest import BIN, Command, tree, until
from tests.e2e.sources import put_objects
from tests.e2e.test_stack import processes_of
from tests.e2e.test_worker import start_worker, stop_worker


@pytest.fixture(scope="module")
def cloud(s3, tmp_path_factory):
    """A running stack whose store is in S3."""
    command = Command(tmp_path_factory.mktemp("cloud"), {"DATAMON_STORE": s3.new_place()})
    command("up", "--detach")
    command("repo", "create", "--repo", "r")
    yield command
    command("down")


@pytest.fixture
def context(cloud):
    return open_context(cloud.settings().store)


@pytest.fixture
def elsewhere(cloud, tmp_path):
    """The command as it is on another host, with the same server and store."""
    return cloud.of_another_host(tmp_path / "elsewhere", f"host-{tmp_path.name[-20:]}")


def opened(cloud):
    return ("--repo", "r", "--diamond", cloud("diamond", "initialize", "--repo", "r"))


def added(cloud, where, path, *options, **popen):
    """The split that an `add` made, as it is told."""
    split = cloud.run("diamond", "add", *where, "--path", path, *options, **popen).stdout.strip()
    return cloud.json("diamond", "split", "get", *where, "--split", split)


def committed(cloud, where):
    return ("--repo", "r", "--bundle", cloud("diamond", "commit", *where, "--message", "m"))


def names(cloud, bundle):
    return [file["name"] for file in cloud.json("bundle", "list", "files", *bundle)]


def test_a_diamond_in_s3_from_a_folder_a_file_and_a_bucket(cloud, s3, place, files, tmp_path):
    source = put_objects(s3, f"{place}/in", {"c/1": "c/1", "c/2": "c/2"})
    where = opened(cloud)
    added(cloud, where, files("here", {"a/1": "one", "a/2": "two"}))
    added(cloud, where, files("single", {"b": "alone"}) + "/b")
    split = added(cloud, where, source)
    assert (split["state"], split["files"], split["source"]) == ("done", 2, source)
    bundle = committed(cloud, where)
    cloud("bundle", "download", *bundle, "--destination", str(tmp_path / "out"))
    assert tree(tmp_path / "out") == {"a/1": "one", "a/2": "two", "b": "alone", "c/1": "c/1", "c/2": "c/2"}


def test_secrets_stay_out_of_histories_and_logs(cloud, s3, place, files):
    where = opened(cloud)
    split = added(cloud, where, files("here", {"a": "1"}))
    told = cloud.run("diamond", "add", *where, "--path", f"{place}/nothing", exit_code=1)
    shown = [told.stdout, told.stderr, *(path.read_text(errors="replace") for path in cloud.home.glob("*.log"))]
    for workflow in (f"diamond/r/{where[3]}", f"split/r/{where[3]}/{split['id']}"):
        command = [BIN / "temporal", "workflow", "show", "--output", "json", "--workflow-id", workflow]
        command += ["--address", running_stack(cloud.home).address]
        shown.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "upload_split" in shown[-1]
    for text in shown:
        assert s3.secret_key not in text
        assert s3.access_key not in text


def test_what_to_upload_can_be_listed_and_filtered(cloud, files, tmp_path):
    path = files("here", {"a.csv": "1", "a.txt": "2", "b.csv": "3", "sub/c.csv": "4"})
    (tmp_path / "list").write_text("b.csv\nsub/c.csv\na.txt\n")
    where = opened(cloud)
    added(cloud, where, path, "--files", str(tmp_path / "list"), "--name-filter", r"\.csv$")
    assert names(cloud, committed(cloud, where)) == ["b.csv", "sub/c.csv"]
    where = opened(cloud)
    process = cloud.popen("diamond", "add", *where, "--path", path, "--files", "-", stdin=subprocess.PIPE)
    _, err = process.communicate("a.csv\n", timeout=100)
    assert process.returncode == 0, err
    assert names(cloud, committed(cloud, where)) == ["a.csv"]


@pytest.mark.parametrize(
    ("options", "exit_code", "said"),
    [
        (("--name-filter", "("), 2, "not a regular expression"),
        (("--files", "/no/such/list"), 2, "No such file"),
        (("--path", "s3://"), 2, "s3://bucket/prefix"),
        (("--path", "s3://a//b"), 2, "s3://bucket/prefix"),
        (("--path", "s3://no-such-bucket-here/x"), 1, "no bucket 'no-such-bucket-here'"),
    ],
)
def test_a_source_that_cannot_be_meant(cloud, files, options, exit_code, said):
    path = files("here", {"a": "1"})
    told = cloud.run("diamond", "add", *opened(cloud), "--path", path, *options, exit_code=exit_code)
    assert said in told.stderr
    assert "Traceback" not in told.stderr


def test_a_list_of_names_that_lead_out_is_refused(cloud, files):
    process = cloud.popen(
        "diamond", "add", *opened(cloud), "--path", files("here", {"a": "1"}), "--files", "-", stdin=subprocess.PIPE
    )
    _, err = process.communicate("a\n../x\n", timeout=100)
    assert process.returncode == 2
    assert "line 2 of the list of files is '../x'" in err


def test_nothing_is_stored_twice(cloud, files, context):
    contents = {f"{n % 7}/f{n:04d}": random.Random(n % 300).randbytes(500) for n in range(600)}  # cannot be compressed
    path = files("here", contents)
    where = opened(cloud)
    first = added(cloud, where, path)
    assert (first["files"], first["bytes"]) == (600, sum(map(len, contents.values())))
    assert first["stored"] == sum(map(len, set(contents.values()))), "identical files are stored once"
    committed(cloud, where)

    again = opened(cloud)
    blobs = sorted(context.blob.keys())
    assert added(cloud, again, path)["stored"] == 0
    assert sorted(context.blob.keys()) == blobs
    changed = files("here", {"3/f0003": "changed", "new": "new"})
    assert added(cloud, again, changed)["stored"] == len("changed") + len("new")
    bundle = committed(cloud, again)
    assert cloud.json("bundle", "get", *bundle)["files"] == 601 + 1, "one conflict among them"


def test_a_running_split_tells_how_far_it_is(cloud, sparse):
    where = opened(cloud)
    split = cloud("diamond", "add", *where, "--path", sparse(12), "--detach")

    def half_way():
        told = cloud.json("diamond", "split", "get", *where, "--split", split)
        assert told["state"] == "running", "it was over before it could be looked at"
        progress = told["progress"]
        return told if progress and progress["rate"] and 0 < told["bytes"] < progress["all_bytes"] else None

    told = until(half_way, 60)
    progress = told["progress"]
    assert progress["phase"] == "reading huge files"
    assert (progress["all_files"], progress["all_bytes"]) == (1, 12 << 30)
    shown = cloud("diamond", "split", "list", *where)
    assert re.search(r"B/s .*reading huge files \d+ %, \d+/\d+ parts", shown)
    cloud("diamond", "cancel", *where)


def random_file(path, size):
    rng = random.Random(path.name)
    with path.open("wb") as file:
        for start in range(0, size, 64 << 20):
            file.write(rng.randbytes(min(64 << 20, size - start)))
    return str(path)


@pytest.mark.timeout(300)
def test_an_upload_that_is_killed_goes_on_and_stores_nothing_again(cloud, elsewhere, context, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(2000):
        (source / f"small{number}").write_bytes(random.Random(number).randbytes(5000))
    random_file(source / "huge", SLICE_BYTES + (100 << 20))  # more than one task takes
    random_file(source / "large", 300 << 20)
    size = sum(path.stat().st_size for path in source.iterdir())
    before = set(context.blob.keys())

    def new_keys():
        return set(context.blob.keys()) - before

    def stored():
        return {key: context.blob.head(key) for key in new_keys()}

    where = opened(cloud)
    worker = start_worker(elsewhere)
    split = elsewhere("diamond", "add", *where, "--path", str(source), "--detach")
    until(lambda: len(new_keys()) > 12, 60)
    worker.kill()
    worker.communicate()
    until(lambda: not processes_of(elsewhere.home))  # Spark has gone with it
    survived = stored()
    assert 12 < len(survived) < size / AVERAGE_CHUNK
    worker = start_worker(elsewhere)
    bundle = cloud("diamond", "commit", *where, "--message", "m", "--wait")
    told = cloud.json("diamond", "split", "get", *where, "--split", split)
    assert (told["state"], told["files"], told["bytes"]) == ("done", 2002, size)
    assert told["attempts"] > 1
    everything = stored()
    assert {key: everything[key] for key in survived} == survived, "not one of them was written again"
    content = sum(found.size for key, found in everything.items() if not key.startswith("roots/"))
    assert content == size
    assert told["stored"] <= sum(found.size for found in everything.values())
    stop_worker(worker)
    cloud("bundle", "download", "--repo", "r", "--bundle", bundle, "--destination", str(tmp_path / "out"))
    assert subprocess.run(["diff", "-r", "-x", ".datamon", source, tmp_path / "out"], check=False).returncode == 0


def test_without_a_worker_on_this_host_the_command_serves_it_itself(elsewhere, cloud, files, s3, place):
    where = opened(cloud)
    path = files("there", {"a": "1"})
    said = elsewhere.refused("diamond", "add", *where, "--path", path, "--detach", exit_code=6)
    assert "no worker serves the task queue 'datamon@host-" in said
    told = elsewhere.run("diamond", "add", *where, "--path", path)
    assert "this command does until the split is done" in told.stderr
    assert "1 file, 1 B" in told.stderr
    assert not processes_of(elsewhere.home)
    told = elsewhere.run("diamond", "add", *where, "--path", files("more", {"c": "3"}))
    assert "this command does" in told.stderr, "the server still remembers the first one"
    put_objects(s3, place, {"b": "2"})
    told = elsewhere.run("diamond", "add", *where, "--path", place)
    assert "no worker" not in told.stderr, "any worker can read a bucket"
    assert names(cloud, committed(cloud, where)) == ["a", "b", "c"]


def test_two_workers_that_see_different_directories(cloud, elsewhere, files, tmp_path):
    """The same path is another folder for each, as on two machines: each has its own mounts."""
    path = files("data", {})
    where = opened(cloud)
    for host, contents in (("one", {"a": "of one"}), ("two", {"b": "of two", "c": "too"})):
        own = files(f"disk-{host}", contents)
        there = Command(tmp_path / host, elsewhere.more | {"DATAMON_HOST": host})
        inside = f"mount --bind '{own}' '{path}' && exec '{BIN}/datamon' worker --queue datamon@{host}"
        flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
        command = ["unshare", *flags, "sh", "-c", inside]
        with subprocess.Popen(command, env=there.environment, text=True, stderr=subprocess.PIPE) as worker:
            assert "serving" in worker.stderr.readline()
            split = added(there, where, path)
            assert (split["host"], split["files"]) == (host, len(contents))
            worker.send_signal(signal.SIGTERM)
    assert names(cloud, committed(cloud, where)) == ["a", "b", "c"]


def test_the_short_way_for_one_machine(cloud, files, tmp_path):
    path = files("here", {"a": "1", "b": "2", "c.tmp": "3"})
    told = cloud.run("bundle", "upload", "--repo", "r", "--path", path, "--message", "short", "--name-filter", "^.$")
    bundle = cloud.json("bundle", "get", "--repo", "r", "--bundle", told.stdout.strip())
    assert (bundle["message"], bundle["files"]) == ("short", 2)
    os.mkfifo(f"{path}/pipe")
    told = cloud.run("bundle", "upload", "--repo", "r", "--path", path, "--message", "bad", exit_code=1)
    assert "cannot upload 'pipe'" in told.stderr
    assert told.stdout == ""
    states = {d["state"] for d in cloud.json("diamond", "list", "--repo", "r") if d["tag"] == "bundle upload"}
    assert states == {"done", "canceled"}


@pytest.fixture(scope="module")
def march(cloud, tmp_path_factory):
    """A bundle with small files and a large one."""
    folder = tmp_path_factory.mktemp("march")
    for number in range(300):
        (folder / f"day-{number:03d}").write_text(f"day {number}\n" * 100)
    random_file(folder / "large", (48 << 20) + 1)
    bundle = cloud("bundle", "upload", "--repo", "r", "--path", str(folder), "--message", "m")
    return folder, ("--repo", "r", "--bundle", bundle)


def test_some_files_and_one_file(cloud, march, tmp_path):
    folder, bundle = march
    out = tmp_path / "out"
    told = cloud.run("bundle", "download", *bundle, "--destination", str(out), "--name-filter", "day-00")
    assert "10 files" in told.stderr
    assert len(tree(out)) == 10
    for name in ("day-007", "large"):
        command = [BIN / "datamon", "bundle", "download", "file", *bundle, "--file", name]
        shown = subprocess.run(command, env=cloud.environment, capture_output=True, check=True)
        assert shown.stdout == (folder / name).read_bytes()
    cloud("bundle", "download", "file", *bundle, "--file", "day-299", "--destination", str(tmp_path / "one"))
    assert list(tree(tmp_path / "one")) == ["day-299"]
    assert "no file 'x'" in cloud.refused("bundle", "download", "file", *bundle, "--file", "x", exit_code=3)


def test_a_destination_with_other_files_is_left_alone(cloud, march, tmp_path):
    _, bundle = march
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("precious")
    to = ("--destination", str(out))
    assert "--force" in cloud.refused("bundle", "download", *bundle, *to, exit_code=4)
    assert tree(out) == {"mine": "precious"}
    cloud("bundle", "download", *bundle, *to, "--force", "--name-filter", "day")
    assert (len(tree(out)), (out / "mine").read_text()) == (301, "precious")


def test_a_download_that_is_interrupted_goes_on(cloud, march, tmp_path):
    folder, bundle = march
    out = tmp_path / "out"
    process = cloud.popen("bundle", "download", *bundle, "--destination", str(out))
    until(lambda: (out / ".datamon" / "partial").exists())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    if process.returncode == 130:
        assert "run the same command again to continue" in err
        told = cloud.run("bundle", "download", *bundle, "--destination", str(out))
        assert "301 files" in told.stderr
    assert subprocess.run(["diff", "-r", "-x", ".datamon", folder, out], check=False).returncode == 0


def test_a_bit_flipped_in_the_store_is_found_and_named(cloud, files, context, tmp_path):
    path = files("here", {"a": "soon to be damaged", "b": "fine"})
    before = set(context.blob.keys())
    bundle = ("--repo", "r", "--bundle", cloud("bundle", "upload", "--repo", "r", "--path", path, "--message", "m"))
    [key] = set(context.blob.keys()) - before
    seen = context.blob.get_versioned(key)
    context.blob.replace(key, bytes([seen.body[0] ^ 1]) + seen.body[1:], seen.version)
    said = cloud.refused("bundle", "download", *bundle, "--destination", str(tmp_path / "out"), exit_code=1)
    assert "the content of 'a'" in said
    assert key in said
    assert "a" not in tree(tmp_path / "out")
    said = cloud.refused("bundle", "download", "file", *bundle, "--file", "a", exit_code=1)
    assert "the content of 'a'" in said


def test_a_store_that_is_not_there_is_said_in_a_sentence(cloud, place):
    lost = Command(cloud.home, {"DATAMON_STORE": "s3://no-such-bucket-here/x"})
    assert "no bucket 'no-such-bucket-here'" in lost.refused("repo", "list", exit_code=6)
    lost = Command(cloud.home, {"DATAMON_STORE": place, "AWS_SECRET_ACCESS_KEY": "wrong-secret"})
    said = lost.refused("repo", "list", exit_code=6)
    assert "signature" in said.lower()
    assert "wrong-secret" not in said
