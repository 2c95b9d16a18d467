"""The metadata of a bundle that is the user's own: what keys and values may be."""

from __future__ import annotations

from collections.abc import Mapping

from datamon.core.errors import BadUsage
from datamon.core.ids import checked_text

MAX_KEY = 100  # bytes
MAX_METADATA = 64 << 10  # bytes of all keys and values: they share a message with all splits of a commit


def check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata, or BadUsage."""
    checked = {
        checked_text("key of the metadata", key, MAX_KEY): checked_text(f"metadata `{key}`", value)
        for key, value in metadata.items()
    }
    size = sum(len(text.encode()) for pair in checked.items() for text in pair)
    if size > MAX_METADATA:
        raise BadUsage(f"the metadata has {size:,} bytes; at most {MAX_METADATA:,} bytes are allowed")
    return checked
