"""`datamon label`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {"label": Registered("commands:label", "Give bundles movable names.", 40)}
