"""Who made something."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contributor:
    """A person or a program, with an address if it is known."""

    name: str
    email: str = ""

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.email else self.name

    @classmethod
    def parse(cls, text: str) -> Contributor | None:
        """The contributor written as `Name <email>`, or None."""
        match = re.fullmatch(r"\s*([^<>]*?)\s*(?:<([^<>]*)>)?\s*", text)
        if match is None or not (match[1] or match[2]):
            return None
        return cls(match[1] or match[2], match[2] or "")
