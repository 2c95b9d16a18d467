"""Where the command `datamon` begins: in a process that has everything imported, if there is one, else in this one."""

from __future__ import annotations

import os

from datamon.starter.warm.client import run_warm


def main() -> None:
    """Run the command."""
    try:
        run_warm()
        from datamon.starter.cli import main as command
    except KeyboardInterrupt:  # before there is anything to stop
        os.write(2, b"datamon: interrupted\n")
        os._exit(130)
    command()


if __name__ == "__main__":
    main()
