"""Objects as JSON, one on a line, inside a YAML document: a flow sequence that both kinds of parser read.

    name: [
     {"first":"a","count":2},
     {"first":"b","count":3},
     ]

A YAML parser takes a hundred times as long as a JSON parser, so what there may be many of is written like this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

ONE_LINE_EACH = {"one line each": True}  # metadata of a field of a descriptor: a list of objects, written like this

# Legal in JSON, but YAML forbids these or takes them for line breaks. All are in the BMP, so \uXXXX serves both.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_encode_lines = msgspec.json.Encoder().encode_lines


def lines_of(objects: Sequence[Any]) -> list[bytes]:
    """A line for each object, with the comma behind it and without the end of the line."""
    if not objects:
        return []
    body = _encode_lines(objects)
    if not body.isascii() or b"\x7f" in body:
        body = _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", body.decode()).encode()
    return (b" " + body[:-1].replace(b"\n", b",\n ") + b",").split(b"\n")


def join_lines(lines: Sequence[bytes]) -> bytes:
    """Lines with their ends."""
    return b"\n".join((*lines, b""))


def as_array(body: bytes) -> bytes:
    """Joined lines as one JSON array."""
    return b"[%s]" % body[:-2]  # without the last comma and end of line
