"""Where the command `datamon` begins: in a process that has everything imported, if there is one, else in this one."""

from __future__ import annotations

from datamon.starter.warm.client import run_warm


def main() -> None:
    """Run the command."""
    run_warm()
    from datamon.starter.cli import main as command

    command()


if __name__ == "__main__":
    main()
