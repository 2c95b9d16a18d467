"""`datamon config` and `datamon completion`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {
    "config": Registered("commands:config", "Show all settings, and where they come from.", 60),
    "completion": Registered("commands:completion", "Print a script that makes a shell complete commands.", 80),
}
