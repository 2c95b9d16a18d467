"""Descriptors as YAML: plain block style that people read, and a strict, typed way back.

A missing field, a wrong type or an unknown version is an error that names the key and the field. Every kind of
descriptor has a format version of its own: the default of its field `version`. Whoever writes one cannot harm its
readers: what is nested deeply, repeats itself by aliases, or is huge is refused before it is built.
"""

from __future__ import annotations

import re
import threading
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
import yaml

from datamon.core.errors import CorruptObject, NotFound
from datamon.stores.protocol import ObjectStore


class Descriptor(Protocol):
    """A dataclass whose field `version` defaults to the version of its format."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def version(self) -> int:
        """Of the format."""
        ...


D = TypeVar("D", bound=Descriptor)

MAX_BYTES = 8 << 20  # a bundle of a hundred million files has 6,000 lists, described in two megabytes
MAX_PARTS = 500_000  # of which such a bundle has a third
MAX_PLAIN = 64 << 10  # characters of a text without quotes
MAX_NUMBER = 100  # characters of a number that is slow to read
MAX_DEPTH = 20  # the deepest has five

_SEXAGESIMAL = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?", re.ASCII)  # a number to YAML, such as 1:59:59
_converting = threading.Lock()  # msgspec crashes where two threads are the first to meet a dataclass
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def dump(descriptor: Descriptor) -> bytes:
    """The bytes of a descriptor. The same descriptor gives the same bytes."""
    return to_yaml(descriptor).encode()


def to_yaml(value: Any) -> str:
    """Any plain value or dataclass as block YAML."""
    plain = msgspec.to_builtins(value, str_keys=True)
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return text


def load(kind: type[D], key: str, body: bytes) -> D:
    """Read a descriptor, strictly."""
    try:
        _check_harmless(key, body)
        plain = yaml.load(body, Loader=_Loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as a date that is none
        raise CorruptObject(key, f"not YAML: {error}".replace("\n", " ")) from error
    if not isinstance(plain, dict):
        raise CorruptObject(key, "not a mapping")
    version, readable = plain.get("version"), kind.__dataclass_fields__["version"].default
    if version != readable:
        shown = version if isinstance(version, int) and abs(version) < 10**9 else type(version).__name__
        raise CorruptObject(key, f"`version` is {shown}, this datamon reads {readable}")
    try:
        with _converting:
            return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise CorruptObject(key, str(error)) from error


def check_readable(key: str, body: bytes) -> None:
    """CorruptObject for a descriptor that no reader would accept, before it is written."""
    _check_harmless(key, body)


def _check_harmless(key: str, body: bytes) -> None:
    """Look at the parts of a document one by one: libyaml builds it by recursion, which a deep one would crash."""
    if len(body) > MAX_BYTES:
        raise CorruptObject(key, f"it has {len(body):,} bytes, and a descriptor at most {MAX_BYTES:,}")
    depth = 0
    for count, part in enumerate(yaml.parse(body, Loader=_Loader)):
        if count > MAX_PARTS:
            raise CorruptObject(key, f"it has more than {MAX_PARTS:,} parts")
        if isinstance(part, yaml.AliasEvent):
            raise CorruptObject(key, f"it has an alias, `*{part.anchor}`")
        if getattr(part, "tag", None) is not None:
            raise CorruptObject(key, f"it has a tag, `{part.tag[:100]}`")
        if isinstance(part, yaml.ScalarEvent) and part.implicit[0]:
            if len(part.value) > MAX_PLAIN:
                raise CorruptObject(key, f"it has a text of {len(part.value):,} characters")
            if len(part.value) > MAX_NUMBER and _SEXAGESIMAL.fullmatch(part.value):
                raise CorruptObject(key, f"it has a number of {len(part.value):,} characters")
        depth += isinstance(part, yaml.CollectionStartEvent) - isinstance(part, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise CorruptObject(key, f"it is nested more than {MAX_DEPTH} levels deep")


def read(kind: type[D], store: ObjectStore, key: str, missing: NotFound | None = None) -> D:
    """Get a descriptor from a store; `missing` is the error to raise where it is not there."""
    try:
        body = store.get_versioned(key).body  # nothing else says what its bytes should be
    except NotFound:
        if missing is None:
            raise
        raise missing from None
    return load(kind, key, body)
