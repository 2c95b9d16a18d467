"""Finding the commands. A package registers its own in `COMMANDS`; their code is imported when they are called."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache

import click

import datamon.starter.commands


@dataclass(frozen=True)
class Registered:
    """A command: where its code is (`module:attribute` of its package), what it does, and where help lists it."""

    code: str
    summary: str
    position: int


@cache
def registered() -> dict[str, tuple[str, Registered]]:
    """All commands by name, each with the package it is in, in the order that help lists them."""
    packages = pkgutil.iter_modules(datamon.starter.commands.__path__, f"{datamon.starter.commands.__name__}.")
    commands = {
        name: (package.name, command)
        for package in packages
        if package.ispkg
        for name, command in getattr(importlib.import_module(package.name), "COMMANDS", {}).items()
    }
    return dict(sorted(commands.items(), key=lambda item: item[1][1].position))


def load(name: str) -> click.Command | None:
    """The code of a command."""
    if name not in registered():
        return None
    package, command = registered()[name]
    module, _, attribute = command.code.partition(":")
    code: click.Command = getattr(importlib.import_module(f"{package}.{module}"), attribute)
    return code
