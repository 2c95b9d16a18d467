"""One process for each path and one that commits, as Airflow, Argo or a batch queue would start them: they share the id
of the diamond and nothing else. The commit may be started before the uploads have ended, or begun.

    python examples/fan_out.py weather /data/part1 /data/part2
"""

import subprocess
import sys


def datamon(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["datamon", *words], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """What a command printed, once it has ended well."""
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(process.returncode)  # it has said why on stderr
    return out.strip()


def main(repo: str, paths: list[str]) -> None:
    diamond = said(datamon("diamond", "initialize", "--repo", repo))
    where = ("--repo", repo, "--diamond", diamond)

    # A step that gathers. It waits until as many splits as there are steps were added and have ended.
    gather = datamon("diamond", "commit", *where, "--message", "fanned out", "--wait", "--splits", str(len(paths)))

    # A step for each part, on whichever machine its data is. With a stable id, a step that is tried again is the same
    # split.
    steps = [
        datamon("diamond", "add", *where, "--path", path, "--split", f"step-{number}", "--create")
        for number, path in enumerate(paths)
    ]
    for step in steps:
        print(f"split {said(step)} is done")
    print(f"bundle {said(gather)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
