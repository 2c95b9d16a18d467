"""What a commit may be asked for: what becomes of conflicts, and what makes a version the later one."""

from __future__ import annotations

from enum import StrEnum


class ConflictMode(StrEnum):
    """What a commit does with versions that lost and differ."""

    KEEP = "with-conflicts"
    CHECKPOINTS = "with-checkpoints"
    IGNORE = "ignore-conflicts"
    FORBID = "no-conflicts"

    @property
    def folder(self) -> str | None:
        """The root folder where losing versions are filed."""
        return {ConflictMode.KEEP: ".conflicts", ConflictMode.CHECKPOINTS: ".checkpoints"}.get(self)


class Order(StrEnum):
    """What makes a version of a peer the later one."""

    UPLOADED = "uploaded"
    ADDED = "added"
