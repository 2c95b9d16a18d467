"""What an installation holds that is not made from a checkout."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    tops = {name.partition(".")[0] for name in listed}
    folders = {path.parent.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("__init__.py")}
    assert set(listed) == {str(folder).replace("/", ".") for folder in folders}
