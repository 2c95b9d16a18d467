"""What the command prints of many things, as they come."""

import json

import pytest
import yaml

from starter.output import PAGE, print_listing

THINGS = [{"name": "é\n", "size": 1}, {"name": "long enough", "size": 1000}]


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
    assert printed(capsys, THINGS, "table") == "SIZE  NAME\n   1  é\\n\n1000  long enough\n"


def test_a_long_table_is_printed_before_its_end_is_known(capsys):
    def endless():
        for number in range(3 * PAGE):
            if number > 2 * PAGE:
                assert len(capsys.readouterr().out.splitlines()) >= PAGE
                return
            yield {"size": number, "name": "n"}

    printed(capsys, endless(), "table")
