"""`datamon bundle`."""

from datamon.starter.commands.registry import Registered

COMMANDS = {"bundle": Registered("commands:bundle", "Make, list, show and download bundles.", 50)}
