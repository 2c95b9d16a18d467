"""Ids, and the rules for every name a user can give to a repo, diamond, split, bundle or label.

Text from outside becomes a typed id once, at the door; behind it `SplitId` means *checked*. A checked id is
one path component of plain ASCII, so it can stand in an object key, a workflow id and a file name as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NewType

from blake3 import blake3
from ksuid import Ksuid, KsuidMs

from datamon.core.errors import BadUsage

RepoName = NewType("RepoName", str)
DiamondId = NewType("DiamondId", str)
SplitId = NewType("SplitId", str)
BundleId = NewType("BundleId", str)
LabelName = NewType("LabelName", str)

RANDOM_BYTES = KsuidMs.PAYLOAD_LENGTH_IN_BYTES
MAX_TEXT = 4_096  # bytes of a path, a message, a reason
_LEGAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_RULE = "use 1 to 100 letters, digits, dots, hyphens and underscores, starting with a letter or digit"


def repo_name(text: str) -> RepoName:
    """The text as a repo name, or BadUsage."""
    return RepoName(_checked("repo name", text))


def diamond_id(text: str) -> DiamondId:
    """The text as a diamond id, or BadUsage. It need not be a KSUID."""
    return DiamondId(_checked("diamond id", text))


def split_id(text: str) -> SplitId:
    """The text as a split id, or BadUsage. It need not be a KSUID."""
    return SplitId(_checked("split id", text))


def bundle_id(text: str) -> BundleId:
    """The text as a bundle id, or BadUsage."""
    return BundleId(_checked("bundle id", text))


def label_name(text: str) -> LabelName:
    """The text as a label, or BadUsage."""
    return LabelName(_checked("label", text))


def checked_text(kind: str, text: str, most: int = MAX_TEXT) -> str:
    """Free text that can be stored, or BadUsage. A terminal with another encoding can give text that cannot."""
    try:
        if (size := len(text.encode())) > most:
            raise BadUsage(f"the {kind} has {size:,} bytes; at most {most:,} bytes are allowed")
    except UnicodeEncodeError:
        raise BadUsage(f"the {kind} {text[:100]!r} is not UTF-8") from None
    return text


def new_id() -> str:
    """A fresh KSUID. For clients only: a workflow uses `id_at`, which replays."""
    return str(KsuidMs())


def id_of(*words: str) -> str:
    """An id that is always the same for the same words. Used where a client may repeat a request."""
    return str(Ksuid.from_bytes(blake3("\0".join(words).encode()).digest(Ksuid.PAYLOAD_LENGTH_IN_BYTES + 4)))


def id_at(seconds: float, payload: bytes) -> str:
    """The KSUID of this moment and these RANDOM_BYTES random bytes. Ids sort by time to four milliseconds."""
    return str(KsuidMs(datetime=datetime.fromtimestamp(seconds, tz=UTC), payload=payload))


def _checked(kind: str, text: str) -> str:
    if not _LEGAL.fullmatch(text):
        raise BadUsage(f"{text[:120]!r} is not a legal {kind}; {_RULE}")
    return text
