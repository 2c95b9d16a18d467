"""Versioned datasets made by many machines.

    import datamon

    with datamon.connect() as dm:                                       # blocking
        diamond = dm.diamonds.initialize("weather")
        diamond.add("/data/part1").result()
        bundle = diamond.commit("March", label="latest").bundle

    async with await datamon.Datamon.connect() as dm:                   # asyncio
        diamond = await dm.diamonds.initialize(repo="weather")

What stands here is loaded when it is used: importing `datamon` costs nothing.

Inside, a package imports only from those above it in this list: core, stores, content, lists, merge, bundles, sources,
diamonds, settings. Then come activities, workflows, worker and starter.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from datamon.version import __version__

if TYPE_CHECKING:
    from datamon.core.errors import DatamonError
    from datamon.merge.modes import ConflictMode, Order
    from datamon.settings.settings import Settings
    from datamon.starter.blocking import connect
    from datamon.starter.client import Datamon, Diamond, Split, SplitOptions

__all__ = [
    "ConflictMode",
    "Datamon",
    "DatamonError",
    "Diamond",
    "Order",
    "Settings",
    "Split",
    "SplitOptions",
    "__version__",
    "connect",
]

_HOMES = {
    "ConflictMode": "datamon.merge.modes",
    "Datamon": "datamon.starter.client",
    "DatamonError": "datamon.core.errors",
    "Diamond": "datamon.starter.client",
    "Order": "datamon.merge.modes",
    "Settings": "datamon.settings.settings",
    "Split": "datamon.starter.client",
    "SplitOptions": "datamon.starter.client",
    "connect": "datamon.starter.blocking",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'datamon' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
