"""What the command prints of many things, as they come."""

import json
import os
import subprocess

import pytest
import yaml
from blake3 import blake3

from datamon.bundles.repos import create_repo
from datamon.content.entry import Entry
from datamon.core.contributors import Contributor
from datamon.core.errors import NotFound
from datamon.starter.output import PAGE, print_listing
from datamon.stores import descriptors, keys
from datamon.stores.context import open_context
from tests.bundles import B, R, bundle_of, put_lists
from tests.conftest import BIN

EMPTY = blake3(b"").hexdigest()
THINGS = [{"name": "é\n\u2028 \x85", "size": 1}, {"name": "long enough", "size": 1000}]


def printed(capsys, items, format):
    print_listing(iter(items), format, ("SIZE", "NAME"), lambda one: (one["size"], one["name"]))
    return capsys.readouterr().out


@pytest.mark.parametrize("items", [[], THINGS[:1], THINGS])
def test_json_and_yaml_are_whole_documents(capsys, items):
    assert json.loads(printed(capsys, items, "json")) == items
    assert yaml.safe_load(printed(capsys, items, "yaml")) == items


def test_json_looks_as_if_printed_at_once(capsys):
    assert printed(capsys, THINGS, "json") == json.dumps(THINGS, indent=2, ensure_ascii=False) + "\n"


def test_a_table_is_aligned(capsys):
    assert printed(capsys, THINGS, "table") == "SIZE  NAME\n   1  é\\n\\u2028 \\x85\n1000  long enough\n"


def test_a_long_table_is_printed_before_its_end_is_known(capsys):
    def endless():
        for number in range(3 * PAGE):
            if number > 2 * PAGE:
                assert len(capsys.readouterr().out.splitlines()) >= PAGE
                return
            yield {"size": number, "name": "n"}

    printed(capsys, endless(), "table")


@pytest.mark.parametrize(("format", "shown"), [("table", 1 + 1500), ("json", 1 + 4 * 1500)])
def test_what_came_before_a_failure_is_printed(capsys, format, shown):
    def failing():
        yield from ({"size": number, "name": "n"} for number in range(1500))
        raise NotFound("object", "list")

    with pytest.raises(NotFound):
        printed(capsys, failing(), format)
    assert len(capsys.readouterr().out.splitlines()) == shown


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path):
    context = open_context(str(tmp_path))
    create_repo(context, R, "", Contributor("Ada"), 0)
    references = put_lists(context, [Entry(f"{n:05d}", EMPTY, 0, 420, 0, 0) for n in range(20_000)])
    context.metadata.create(keys.bundle(R, B), descriptors.dump(bundle_of(references)))
    script = f"set -o pipefail; {BIN}/datamon bundle list files --repo r --bundle b | head -2"
    environment = os.environ | {"DATAMON_STORE": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("00000 ")
