"""Encryption of all that goes through Temporal: inputs, results, signals, heartbeats, failures, summaries.

    DATAMON_ENCRYPTION_KEY=$(openssl rand -base64 32)

Workers and clients of one namespace have the same key; the server, its database and its Web UI see ciphertext: AES-256
in GCM, with a new nonce for each payload. Several keys, with commas between: the first encrypts, all decrypt, so that a
key can be replaced while workflows run. In the clear is what Temporal itself finds things by: workflow ids, which have
the names of repos and the ids of diamonds and splits, search attributes, and the names of task queues and workers,
which have those of hosts.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from blake3 import blake3
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from datamon.core.errors import BadUsage

log = logging.getLogger(__name__)

VARIABLE = "DATAMON_ENCRYPTION_KEY"
ENCRYPTED = b"binary/encrypted"
KEY_BYTES = 32
NONCE_BYTES = 12


def converter(keys: str, *, for_worker: bool) -> DataConverter:
    """What turns values into payloads and back; without a key, as Temporal does by itself."""
    codec = Encryption(keys, strict=not for_worker)
    if not keys:
        return replace(DataConverter.default, payload_codec=codec)
    failures = DefaultFailureConverterWithEncodedAttributes
    return replace(DataConverter.default, payload_codec=codec, failure_converter_class=failures)


class Encryption(PayloadCodec):
    """Encrypts payloads, if there is a key.

    What no key of ours opens is an error to a client. To a worker it is not, for an exception here would fail all that
    came with it, a whole workflow task, and that for ever: it is left as it is, and fails alone.
    """

    def __init__(self, keys: str, *, strict: bool) -> None:
        ciphers = [_cipher(key.strip()) for key in keys.split(",")] if keys else []
        self._ciphers = dict(ciphers)
        self._first, self._strict = next(iter(self._ciphers), b""), strict

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
        return [self._encrypted(payload) for payload in payloads] if self._ciphers else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec. What came unencrypted, as from the Web UI, is taken as it is."""
        return [self._decrypted(payload) for payload in payloads]

    def _encrypted(self, payload: Payload) -> Payload:
        nonce = os.urandom(NONCE_BYTES)
        data = self._ciphers[self._first].encrypt(nonce, payload.SerializeToString(), None)
        return Payload(metadata={"encoding": ENCRYPTED, "key": self._first}, data=nonce + data)

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED:
            return payload
        cipher = self._ciphers.get(payload.metadata.get("key", b""))
        inside = _opened(cipher, payload.data) if cipher is not None else None
        if inside is None and self._strict:
            lacks = "has not the key to it" if self._ciphers else "is not set"
            raise BadUsage(f"what Temporal answers is encrypted, and {VARIABLE} {lacks}; set it as for the workers")
        if inside is None:
            name = payload.metadata.get("key", b"").decode(errors="replace")[:16]
            log.warning("what was encrypted with key %s cannot be read; a message so sent is lost", name)
        return payload if inside is None else inside


def _opened(cipher: Any, data: bytes) -> Payload | None:
    from cryptography.exceptions import InvalidTag

    try:
        return Payload.FromString(cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None))
    except (InvalidTag, ValueError, DecodeError):
        return None


def _cipher(key: str) -> tuple[bytes, Any]:
    """A key's name, which gives nothing away, and what it encrypts with."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise BadUsage(f"{VARIABLE} is set; install the package with `pip install 'datamon[encryption]'`") from None
    try:
        whole = base64.b64decode(key, validate=True)
    except ValueError:
        whole = b""
    if len(whole) != KEY_BYTES:
        wanted = f"{KEY_BYTES} bytes in base64, as `openssl rand -base64 {KEY_BYTES}` gives"
        raise BadUsage(f"{VARIABLE} is no key: it takes {wanted}; of several, with commas between, the first encrypts")
    name = blake3(whole, derive_key_context="datamon: the name of a key").hexdigest()[:16]
    return name.encode(), AESGCM(whole)
