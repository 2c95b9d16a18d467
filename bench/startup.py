"""How long a user waits for the command itself, beside what Python and Temporal's client take by themselves.

    python bench/startup.py

Prints one JSON object: medians in seconds, and the ratios that matter. Needs no server.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7
BIN = Path(sys.executable).parent


def median(command, environment):
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main():
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"DATAMON_HOME": home}
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "temporal client": [sys.executable, "-c", "import os, temporalio.client; os._exit(0)"],
            "datamon --help": [BIN / "datamon", "--help"],
            "datamon repo list": [BIN / "datamon", "repo", "list"],
            "datamon client": [sys.executable, "-c", "import os, datamon.starter.client; os._exit(0)"],
        }
        found = {name: round(median(command, environment), 3) for name, command in commands.items()}
    ratios = {
        "help / python": round(found["datamon --help"] / found["python"], 2),
        "our client / temporal client": round(found["datamon client"] / found["temporal client"], 2),
    }
    print(json.dumps({"seconds": found, "ratios": ratios}, indent=2))


if __name__ == "__main__":
    main()
