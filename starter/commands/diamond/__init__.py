"""`datamon diamond`, and its splits."""

from datamon.starter.commands.registry import Registered

COMMANDS = {"diamond": Registered("commands:diamond", "Make one bundle out of many uploads.", 30)}
