"""What the docs say about the tests is true."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_rule_names_a_test_that_is_there():
    rules = [line for line in (ROOT / "docs" / "semantics.md").read_text().splitlines() if line.startswith("| ")]
    named = [
        re.search(r"`(\w+/\w+\.py)::(\w+)` \|$", line) for line in rules if not line.startswith(("| rule", "| ---"))
    ]
    assert len(named) > 50
    for found in named:
        assert found is not None
        text = (ROOT / "tests" / found[1]).read_text()
        assert re.search(rf"^(async )?def {found[2]}\(", text, re.MULTILINE), f"{found[1]} has no {found[2]}"
