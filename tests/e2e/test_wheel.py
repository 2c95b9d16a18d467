"""The package as others install it, used from a project whose own packages are called like parts of ours."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from datamon.version import __version__
from tests.conftest import Command

ROOT = Path(__file__).parents[2]
DEPENDENCIES = Path(click.__file__).parent.parent
OURS = ("datamon", "workflows", "activities", "worker", "starter")
THEIRS = ("workflows", "activities", "worker", "starter")
HEAVY = ("temporalio", "pyspark", "boto3", "click")
SETUPTOOLS = 77  # the first that knows the form in which pyproject.toml has the license

BLOCKING = """
import datamon

with datamon.connect() as dm:
    diamond = dm.diamonds.initialize("r")
    diamond.add("more").result()
    answer = diamond.commit("by a program", datamon.ConflictMode.FORBID)
    print(answer.bundle, answer.files, len(dm.bundles.list("r")))
"""
ASYNC = """
import asyncio
import datamon

async def main():
    async with await datamon.Datamon.connect() as dm:
        diamond = await dm.diamonds.initialize("r")
        await (await diamond.add("more", datamon.SplitOptions(id="node", create=True))).result()
        print((await diamond.commit("by another one")).files)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of a copy of the checkout: what an earlier build has left beside the code is not in it."""
    source, folder = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    for part in OURS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    isolation = ["--no-build-isolation"] if int(version("setuptools").split(".")[0]) >= SETUPTOOLS else []
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation, "--wheel-dir", folder, source]
    subprocess.run(pip, check=True, capture_output=True, timeout=100)
    [built] = folder.glob("*.whl")
    return built


@dataclass
class Installed(Command):
    """The command of a virtual environment, called from somebody's project."""

    python: Path = Path()
    project: Path = Path()

    @property
    def environment(self):
        """All of it, with the programs of the environment first."""
        ours = super().environment
        ours.pop("PYTHONPATH", None)
        return ours | {"PATH": f"{self.python.parent}{os.pathsep}{ours['PATH']}"}

    def popen(self, *args, **options):
        return self.start(self.python.parent / "datamon", *args, **options)

    def start(self, *words, **options):
        pipes = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, env=self.environment, cwd=self.project, **pipes, **options)

    def program(self, text, name="program.py"):
        """What a program of the project prints, whose folder comes first where it looks for modules."""
        (self.project / name).write_text(text)
        with self.start(self.python, name) as process:
            out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        return out.strip()


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh virtual environment with the wheel. It sees our dependencies, and not the checkout."""
    folder, project = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("project")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    [packages] = folder.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")  # whose own .pth files are not read then
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--ignore-installed", wheel], check=True, capture_output=True, timeout=100)
    for theirs in THEIRS:
        (project / theirs).mkdir()
        (project / theirs / "__init__.py").write_text(f"raise AssertionError('this is the {theirs} of the project')\n")
    for name, text in {"data/a": "1", "data/b": "2", "more/c": "3"}.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    return Installed(tmp_path_factory.mktemp("home"), python=python, project=project)


def test_the_wheel_has_one_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"datamon"}
    here = {
        str(Path("datamon", path.relative_to(ROOT / "datamon" if part == "datamon" else ROOT)))
        for part in OURS
        for path in (ROOT / part).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == here, "every module is in it, and nothing else"


def test_it_is_the_installed_package_that_runs(installed):
    shown = installed.program("import datamon.workflows, datamon.starter.cli as cli; print(cli.__file__)")
    assert Path(shown).is_relative_to(installed.python.parent.parent)
    assert "this is the workflows of the project" in installed.program(
        "try:\n    import workflows\nexcept AssertionError as error:\n    print(error)"
    )


def test_a_life_beside_packages_of_the_same_names(installed):
    assert __version__ in installed("--version")
    installed("up", "--detach")
    try:
        installed("repo", "create", "--repo", "r")
        first = installed("bundle", "upload", "--repo", "r", "--path", "data", "--message", "by the command")
        assert [
            file["name"] for file in installed.json("bundle", "list", "files", "--repo", "r", "--bundle", first)
        ] == [
            "a",
            "b",
        ]
        second, files, bundles = installed.program(BLOCKING).split()
        assert (files, bundles) == ("1", "2")
        assert second != first
        assert installed.program(ASYNC) == "1"
        messages = {bundle["message"] for bundle in installed.json("bundle", "list", "--repo", "r")}
        assert messages == {"by the command", "by a program", "by another one"}
    finally:
        installed("down")


def test_importing_it_loads_nothing_heavy_and_shows_what_there_is(installed):
    program = """
import json, sys
import datamon
print(json.dumps({"loaded": sorted(sys.modules), "shown": dir(datamon)}))
"""
    answer = json.loads(installed.program(program))
    assert not set(HEAVY) & {name.split(".")[0] for name in answer["loaded"]}
    names = {
        "ConflictMode",
        "Datamon",
        "DatamonError",
        "Diamond",
        "Order",
        "Settings",
        "Split",
        "SplitOptions",
        "connect",
    }
    assert names <= set(answer["shown"])
    missing = installed.program(
        f"import datamon\nprint([name for name in {sorted(names)} if not hasattr(datamon, name)])"
    )
    assert missing == "[]"
