import fcntl
from pathlib import Path

import msgspec
import pytest

from datamon.core.contributors import Contributor
from datamon.core.errors import BadUsage, WrongState
from datamon.settings.settings import Settings
from datamon.settings.stack import Stack, hold_stack, is_stack_alive, running_stack
from datamon.starter.advice import sentence


def test_defaults(tmp_path):
    settings = Settings.load({"DATAMON_HOME": str(tmp_path)})
    assert settings.store == str(tmp_path / "store")
    assert settings.spark_master == "local[*]"
    assert settings.host
    assert settings.contributor.name
    assert Settings.load({}).home == Path.home() / ".datamon"


def test_the_environment_decides(tmp_path):
    settings = Settings.load(
        {
            "DATAMON_HOME": str(tmp_path),
            "DATAMON_STORE": "/data/store",
            "DATAMON_HOST": "node-7",
            "DATAMON_CONTRIBUTOR": "Ada Lovelace <ada@example.org>",
            "DATAMON_SPARK_MASTER": "local[1]",
        }
    )
    ada = Contributor("Ada Lovelace", "ada@example.org")
    assert settings == Settings(tmp_path, "/data/store", "node-7", ada, "local[1]", cache=str(tmp_path / "cache"))


@pytest.mark.parametrize(("given", "level"), [("", 3), ("1", 1), ("19", 19), ("off", 0)])
def test_compression_has_a_level_or_is_off(tmp_path, given, level):
    assert Settings.load({"DATAMON_HOME": str(tmp_path), "DATAMON_COMPRESSION": given}).compression == level


@pytest.mark.parametrize("given", ["0", "20", "-1", "fast", "3.5", "²"])
def test_a_level_that_is_none_is_refused(tmp_path, given):
    with pytest.raises(BadUsage, match=f"DATAMON_COMPRESSION is '{given}'; set it to a level from 1 to 19, or to off"):
        Settings.load({"DATAMON_HOME": str(tmp_path), "DATAMON_COMPRESSION": given})


def test_the_cache_can_be_elsewhere_or_off(tmp_path):
    home = {"DATAMON_HOME": str(tmp_path)}
    assert Settings.load(home | {"DATAMON_CACHE": "/fast/disk"}).cache == "/fast/disk"
    assert Settings.load(home | {"DATAMON_CACHE": "off"}).cache == ""


@pytest.mark.parametrize(
    ("text", "contributor"),
    [("Ada", Contributor("Ada")), ("<a@b>", Contributor("a@b", "a@b")), (" A B  <a@b> ", Contributor("A B", "a@b"))],
)
def test_contributors(tmp_path, text, contributor):
    assert Settings.load({"DATAMON_HOME": str(tmp_path), "DATAMON_CONTRIBUTOR": text}).contributor == contributor


@pytest.mark.parametrize("text", ["a <b", "<>", "a <b> c"])
def test_a_contributor_that_cannot_be_meant(tmp_path, text):
    with pytest.raises(BadUsage, match="Name <email>"):
        Settings.load({"DATAMON_HOME": str(tmp_path), "DATAMON_CONTRIBUTOR": text})


def test_a_running_stack_is_found_with_its_store(tmp_path):
    stack = Stack("127.0.0.1:7233", "http://127.0.0.1:8233", "/its/store")
    (tmp_path / "stack.json").write_bytes(msgspec.json.encode(stack))
    assert running_stack(tmp_path) is None, "a file left behind by a crash is no running stack"
    with (tmp_path / "up.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert running_stack(tmp_path) == stack
        assert Settings.load({"DATAMON_HOME": str(tmp_path)}).store == "/its/store"
        with pytest.raises(WrongState, match="is running: only one runs") as refusal, hold_stack(tmp_path):
            pass
        assert "datamon down" in sentence(refusal.value)
    assert not is_stack_alive(tmp_path)


def test_a_held_home_stays_held_until_the_process_ends(tmp_path):
    with hold_stack(tmp_path) as announcement:
        assert is_stack_alive(tmp_path)
        assert running_stack(tmp_path) is None
        announcement.write_bytes(msgspec.json.encode(Stack("a", "u", "s")))
        assert running_stack(tmp_path) == Stack("a", "u", "s")
    assert is_stack_alive(tmp_path)
    assert running_stack(tmp_path) is None
