"""Words for people: numbers with their nouns, names in quotes, what the operating system says."""

from __future__ import annotations

import json

REASON_BYTES = 480  # of a reason that goes through Temporal, where a letter that is not ASCII takes six or twelve
SPELLED_OUT = 10  # how many names a sentence holds, if there are many


def counted(number: int, noun: str) -> str:
    """A number of things: `1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quoted(name: str) -> str:
    """A file name in quotes, with whatever a terminal might take for a command made visible."""
    return f"'{name}'" if name.isprintable() and "'" not in name else repr(name)


def os_reason(error: OSError) -> str:
    """What the operating system says went wrong, as part of a sentence."""
    return (error.strerror or str(error)).lower()


def shortened(text: str, most_bytes: int, most_characters: int = 300) -> str:
    """As much of a text as fits into so many bytes of JSON in ASCII: many such texts share a message."""
    text = text[:most_characters]
    while (size := len(json.dumps(text))) > most_bytes:
        text = text[: len(text) * most_bytes // size]
    return text
