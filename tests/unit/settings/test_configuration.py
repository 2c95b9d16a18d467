"""Where settings come from, and which of them counts."""

import json
import os

import pytest
from click.testing import CliRunner

from datamon.core.errors import BadUsage
from datamon.settings import configuration
from datamon.settings.settings import Settings
from datamon.starter.cli import datamon

SECRETS = ("sekrit-api-key", "sekrit-access-key", "sekrit-secret-key", "sekrit-password")


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """A folder of its own with nothing set, neither here nor for the user."""
    for variable in [setting.variable for setting in configuration.SETTINGS] + ["DATAMON_CONFIG"]:
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("DATAMON_HOME", str(tmp_path / "home"))
    inner = tmp_path / "project" / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    yield tmp_path
    configuration.forget_flags()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def value(name):
    [resolved] = [one for one in configuration.resolve_all() if one.setting.name == name]
    return resolved.value, resolved.source


def test_flags_then_environment_then_the_project_then_the_user(nowhere, monkeypatch):
    assert value("contributor") == (None, "default")
    users, projects = nowhere / "user/datamon/datamon.toml", nowhere / "project/datamon.toml"
    write(users, 'contributor = "User"\nhost = "h"\n')
    assert value("contributor") == ("User", str(users))
    write(projects, 'contributor = "Project"\n')
    assert value("contributor") == ("Project", str(projects))
    assert value("host") == ("h", str(users))
    monkeypatch.setenv("DATAMON_CONTRIBUTOR", "Environment")
    assert value("contributor") == ("Environment", "environment")
    configuration.set_flag("DATAMON_CONTRIBUTOR", "Flag")
    assert value("contributor") == ("Flag", "flag")
    assert Settings.load().contributor.name == "Flag"


def test_the_nearest_file_counts_unless_one_is_named(nowhere, monkeypatch):
    write(nowhere / "project/datamon.toml", 'host = "far"\n')
    write(nowhere / "project/a/datamon.toml", 'host = "near"\n')
    write(nowhere / "other.toml", 'host = "named"\n')
    assert value("host")[0] == "near"
    monkeypatch.setenv("DATAMON_CONFIG", str(nowhere / "other.toml"))
    assert value("host")[0] == "named"


def test_a_relative_path_is_relative_to_the_file(nowhere):
    write(nowhere / "project/datamon.toml", 'store = "data"\n')
    assert Settings.load().store == str(nowhere / "project/data")
    write(nowhere / "project/datamon.toml", 'store = "s3://bucket/data"\n')
    assert Settings.load().store == "s3://bucket/data"


def test_an_empty_value_is_none(nowhere):
    write(nowhere / "user/datamon/datamon.toml", 'store = "s3://bucket/data"\n')
    write(nowhere / "project/datamon.toml", 'store = ""\n')
    assert Settings.load().store == "s3://bucket/data"
    assert value("store") == ("s3://bucket/data", str(nowhere / "user/datamon/datamon.toml"))


def test_a_file_of_another_user_counts_only_if_it_is_named(nowhere, monkeypatch):
    path = nowhere / "project/datamon.toml"
    write(path, 'store = "s3://theirs/data"\n')
    os.chown(path, 12345, -1)
    with pytest.raises(BadUsage, match="belongs to another user"):
        configuration.environment()
    monkeypatch.setenv("DATAMON_CONFIG", str(path))
    assert Settings.load().store == "s3://theirs/data"


def test_temporal_has_a_table_of_its_own(nowhere):
    write(nowhere / "project/datamon.toml", '[temporal]\naddress = "t:7233"\nnamespace = "n"\n')
    assert Settings.load().temporal["TEMPORAL_ADDRESS"] == "t:7233"
    assert value("temporal.namespace")[0] == "n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('stroe = "x"', "there is no setting `stroe`; there are home, store"),
        ("store = 3", "`store` is 3"),
        ("[store]\nx = 1", "there is no setting `store.x`"),
        ("store =", "is not TOML"),
        ("[temporal]\napi_key = 12345", "`temporal.api_key` is not text"),
        ('store = "\udcff"', "cannot be read"),
    ],
)
def test_what_a_file_cannot_mean_is_told_with_its_name(nowhere, text, why):
    path = nowhere / "project/datamon.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadUsage) as refused:
        configuration.environment()
    assert str(path) in str(refused.value)
    assert why in str(refused.value)


def test_a_file_that_is_named_must_be_there(nowhere, monkeypatch):
    monkeypatch.setenv("DATAMON_CONFIG", str(nowhere / "missing.toml"))
    with pytest.raises(BadUsage, match=r"missing\.toml cannot be read"):
        configuration.environment()


def shown(*args):
    done = CliRunner().invoke(datamon, [*args, "config", "show", "--format", "json"], catch_exceptions=False)
    return {row["name"]: (row["value"], row["source"]) for row in json.loads(done.output)}, done.output


def test_config_show_says_where_everything_is_from_and_hides_secrets(nowhere, monkeypatch):
    write(nowhere / "project/datamon.toml", 'spark_master = "local[1]"\n')
    temporal = nowhere / "temporal.toml"
    write(temporal, '[profile.prod]\naddress = "t.example:7233"\nnamespace = "n"\napi_key = "sekrit-api-key"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(temporal))
    monkeypatch.setenv("DATAMON_TRACING", "http://me:sekrit-password@collector:4318/v1/traces")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "sekrit-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sekrit-secret-key")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:sekrit-password@s3.example:9000")
    settings, text = shown("--store", "/data/store", "--temporal-profile", "prod")
    assert settings["store"] == ("/data/store", "flag")
    assert settings["spark_master"] == ("local[1]", str(nowhere / "project/datamon.toml"))
    assert settings["home"][1] == "environment"
    assert settings["host"][1] == "default"
    assert settings["temporal.address"] == ("t.example:7233", f"profile prod of {temporal}")
    assert settings["temporal.profile"] == ("prod", "flag")
    assert settings["temporal.api_key"] == ("(hidden)", f"profile prod of {temporal}")
    assert settings["temporal.tls"][0] == "on"
    assert settings["tracing"][0] == "http://(hidden)@collector:4318/v1/traces"
    assert "sekrit" not in repr(Settings.load())
    assert settings["aws.endpoint_url"][0] == "http://(hidden)@s3.example:9000"
    assert not any(secret in text for secret in SECRETS)
