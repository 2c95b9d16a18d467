"""What an installation holds that is not made from a checkout, and what must not creep into the code."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
TOPS = ["datamon", *SETUPTOOLS["package-dir"].values()]


def packages():
    """All packages of the repository, as they are called when they are installed."""
    for top in TOPS:
        prefix = "" if top == "datamon" else "datamon."
        for path in (ROOT / top).rglob("__init__.py"):
            yield prefix + str(path.parent.relative_to(ROOT)).replace("/", "."), path


def test_every_package_is_installed():
    assert set(SETUPTOOLS["packages"]) == {name for name, _ in packages()}


@pytest.mark.parametrize(("name", "path"), list(packages()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_package_says_what_it_is(name, path):
    assert ast.get_docstring(ast.parse(path.read_text())), name


@pytest.mark.parametrize("top", TOPS)
def test_imports_name_the_installed_packages(top):
    """`import workflows` would find those of whoever's project it runs in."""
    for path in (ROOT / top).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any((module or "").split(".")[0] in TOPS[1:] for module in modules), f"{path}:{node.lineno}"


def test_importing_datamon_loads_nothing_heavy():
    heavy = "{'temporalio', 'pyspark', 'boto3', 'click', 'yaml', 'msgspec'}"
    script = f"import sys, datamon; sys.exit(', '.join(sorted({heavy} & set(sys.modules))) or None)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_public_door_is_open():
    import datamon

    assert {"Datamon", "connect", "ConflictMode", "SplitOptions"} <= set(dir(datamon))
    for name in dir(datamon):
        assert getattr(datamon, name)
    with pytest.raises(AttributeError, match="nothing"):
        datamon.nothing  # noqa: B018
