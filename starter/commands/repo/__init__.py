"""`datamon repo`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {"repo": Registered("commands:repo", "Make and list repos.", 20)}
