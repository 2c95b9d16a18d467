"""Files of bundles and splits, as listings show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datamon.content.entry import Entry


def file_fields(entry: Entry) -> dict[str, Any]:
    """What JSON and YAML say of a file, an empty folder or a symbolic link."""
    fields: dict[str, Any] = {
        "type": "folder" if entry.is_folder else "file" if entry.link is None else "link",
        "size": entry.size,
        "hash": entry.hash,
        "mode": entry.mode,
        "mtime": entry.mtime,
    }
    return fields if entry.link is None else fields | {"link": entry.link}


def named(file: Mapping[str, Any], entry_fields: Mapping[str, Any] | None = None) -> str:
    """What a table shows as the name: of a link, with where it leads to."""
    target = (entry_fields or file).get("link")
    return f"{file['name']} -> {target}" if target is not None else str(file["name"])
