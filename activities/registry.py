"""Finds the activities of this package. A class that implements a contract need not be registered anywhere.

A worker builds each with the resources it names in `build`, and serves its methods on the queues it `runs_on`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from temporalio import activity

import datamon.activities
from datamon.settings.settings import Settings
from datamon.stores.context import Context

if TYPE_CHECKING:
    from pyspark import SparkContext


class RunsOn(Enum):
    """Which task queues activities are served on."""

    SHARED = "shared"  # the one that every worker polls
    EVERY = "every"  # the shared one, and those of single hosts


@dataclass(frozen=True)
class Resources:
    """What a worker has for its activities."""

    settings: Settings
    context: Context
    spark: Callable[[], SparkContext]


class ActivityGroup:
    """Activities that share their resources."""

    runs_on: ClassVar[RunsOn] = RunsOn.SHARED

    @classmethod
    def build(cls, resources: Resources) -> ActivityGroup:  # noqa: ARG003
        """The group, with what it needs of a worker's resources."""
        raise AssertionError(f"{cls.__name__} does not say what it needs")


def build_activities(resources: Resources) -> dict[RunsOn, list[Callable[..., Any]]]:
    """All activities, by where they run."""
    methods: dict[RunsOn, list[Callable[..., Any]]] = {place: [] for place in RunsOn}
    for group in _groups():
        methods[group.runs_on] += _activities(group.build(resources))
    return methods


def _groups() -> Iterator[type[ActivityGroup]]:
    for module in pkgutil.iter_modules(datamon.activities.__path__, f"{datamon.activities.__name__}."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(member, ActivityGroup) and member.__module__ == module.name and member is not ActivityGroup:
                yield member


def _activities(group: ActivityGroup) -> list[Callable[..., Any]]:
    methods = inspect.getmembers(group, inspect.ismethod)
    return [method for _, method in methods if activity._Definition.from_callable(method) is not None]  # noqa: SLF001
