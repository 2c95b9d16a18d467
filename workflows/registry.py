"""Finds the workflows of this package, which need not be registered anywhere."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from temporalio import workflow

import datamon.workflows


@cache
def all_workflows() -> list[type]:
    """Every class with `@workflow.defn`."""
    return [
        member
        for module in pkgutil.walk_packages(datamon.workflows.__path__, f"{datamon.workflows.__name__}.")
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if member.__module__ == module.name and workflow._Definition.from_class(member) is not None  # noqa: SLF001
    ]
