"""What the docs say about the tests is true."""

import re
from pathlib import Path

from datamon.core.errors import ErrorCode

ROOT = Path(__file__).parents[2]


def test_every_rule_names_a_test_that_is_there():
    rules = [
        line for line in (ROOT / "docs" / "concepts" / "semantics.md").read_text().splitlines() if line.startswith("| ")
    ]
    named = [
        re.search(r"`((?:\w+/)+\w+\.py)::(\w+)` \|$", line)
        for line in rules
        if not line.startswith(("| rule", "| ---"))
    ]
    assert len(named) > 50
    for found in named:
        assert found is not None
        assert_is_there(*found.groups())


def test_every_promise_of_security_names_tests_that_are_there():
    held = (ROOT / "SECURITY.md").read_text().partition("## What holds")[2].partition("\n## ")[0]
    rows = [line for line in held.splitlines() if line.startswith("| ") and not line.startswith(("| | ", "| ---"))]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`((?:\w+/)+\w+\.py)::(\w+)`", row)
        assert named, row
        for found in named:
            assert_is_there(*found)


def assert_is_there(file, name):
    text = (ROOT / "tests" / file).read_text()
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"


def test_troubleshooting_has_every_message_by_its_code():
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", page, re.MULTILINE)
    assert rows == sorted(code.value for code in ErrorCode)
