"""Descriptors as YAML: plain block style that people read, and a strict, typed way back.

A missing field, a wrong type or an unknown version is an error that names the key and the field. Every kind of
descriptor has a format version of its own: the default of its field `version`. A descriptor cannot harm its readers,
whoever wrote it: one that is nested deeply, has aliases, or is huge is refused before it is built.

A field that may have thousands of items stands last, each item as JSON on a line of its own. That is YAML too, but
reading it as JSON takes a hundredth of the time.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

import msgspec
import yaml

from datamon.core.errors import CorruptObject, DatamonError, NotFound
from datamon.stores.json_lines import ONE_LINE_EACH, as_array, join_lines, lines_of
from datamon.stores.protocol import ObjectStore


class Descriptor(Protocol):
    """A dataclass whose field `version` defaults to the version of its format."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def version(self) -> int:
        """The version of the format."""
        ...


D = TypeVar("D", bound=Descriptor)

MAX_BYTES = 8 << 20  # a bundle of a hundred million files has 6,000 lists, described in two megabytes
MAX_PARTS = 500_000  # outside of those lines; a bundle of ten thousand splits has a sixth of that
MAX_PLAIN = 64 << 10  # characters of a text without quotes
MAX_NUMBER = 100  # characters of a number that is slow to read
MAX_DEPTH = 20  # the deepest descriptor has five levels

_SEXAGESIMAL = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?", re.ASCII)  # a number to YAML, such as 1:59:59
_CLOSING = b" ]\n"

_converting = threading.Lock()  # msgspec crashes where two threads are the first to meet a dataclass
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def dump(descriptor: Descriptor) -> bytes:
    """The bytes of a descriptor. The same descriptor gives the same bytes."""
    plain = msgspec.to_builtins(descriptor, str_keys=True)
    many = _Lines.of(type(descriptor))
    items = plain.pop(many.field) if many is not None else []
    body = to_yaml(plain).encode()
    return b"".join((body, many.opening, join_lines(lines_of(items)), _CLOSING)) if many is not None and items else body


def to_yaml(value: Any) -> str:
    """Any plain value or dataclass as block YAML."""
    plain = msgspec.to_builtins(value, str_keys=True)
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return text


def load(kind: type[D], key: str, body: bytes) -> D:
    """Read a descriptor, strictly."""
    _check_size(key, body)
    many = _Lines.of(kind)
    items = None
    if many is not None:
        body, items = many.split(key, body)
    try:
        _check_harmless(key, body)
        plain = yaml.load(body, Loader=_Loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as an impossible date
        raise CorruptObject(key, f"not YAML: {error}".replace("\n", " ")) from error
    if not isinstance(plain, dict):
        raise CorruptObject(key, "not a mapping")
    version, readable = plain.get("version"), kind.__dataclass_fields__["version"].default
    if version != readable:
        shown = version if isinstance(version, int) and abs(version) < 10**9 else type(version).__name__
        raise CorruptObject(key, f"`version` is {shown}, this datamon reads {readable}")
    try:
        with _converting:
            result = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise CorruptObject(key, str(error)) from error
    return dataclasses.replace(result, **{many.field: items}) if many is not None and items else result


@dataclasses.dataclass(frozen=True, slots=True)
class _Lines:
    """The field of a kind of descriptor that has a line for each of its items."""

    field: str
    decoder: msgspec.json.Decoder[list[Any]]

    @staticmethod
    @cache
    def of(kind: type[Descriptor]) -> _Lines | None:
        """The field of a kind of descriptor, if it has one."""
        for one in dataclasses.fields(kind):
            if one.metadata == ONE_LINE_EACH:
                return _Lines(one.name, msgspec.json.Decoder(get_type_hints(kind, include_extras=True)[one.name]))
        return None

    @property
    def opening(self) -> bytes:
        """What stands before the lines."""
        return b"%s: [\n" % self.field.encode()

    def split(self, key: str, body: bytes) -> tuple[bytes, list[Any] | None]:
        """The bytes before the lines, and what the lines say. Items written in another way are read as YAML."""
        rest, found, lines = body.partition(b"\n" + self.opening)
        if not found or not lines.endswith(b",\n" + _CLOSING):
            return body, None
        try:
            with _converting:
                return rest + b"\n", self.decoder.decode(as_array(lines.removesuffix(_CLOSING)))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise CorruptObject(key, f"`{self.field}`: {error}") from error


def dump_readable(key: str, descriptor: Descriptor) -> bytes:
    """The bytes of a descriptor; CorruptObject if no reader would accept them."""
    body = dump(descriptor)
    load(type(descriptor), key, body)
    return body


def _check_size(key: str, body: bytes) -> None:
    if len(body) > MAX_BYTES:
        raise CorruptObject(key, f"it has {len(body):,} bytes, and a descriptor at most {MAX_BYTES:,}")


def _check_harmless(key: str, body: bytes) -> None:
    """Check the parts of a document one by one: libyaml builds it by recursion, which deep nesting would crash."""
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


def read(kind: type[D], store: ObjectStore, key: str, missing: DatamonError | None = None) -> D:
    """Get a descriptor from a store; `missing` is the error to raise if it is not there."""
    try:
        body = store.get_versioned(key).body  # nothing else says what its bytes should be
    except NotFound:
        if missing is None:
            raise
        raise missing from None
    return load(kind, key, body)
