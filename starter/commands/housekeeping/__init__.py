"""`datamon housekeeping`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {
    "housekeeping": Registered("commands:housekeeping", "Remove what is left of diamonds that ended long ago.", 70)
}
