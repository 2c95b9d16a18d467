"""Encryption of all that goes through Temporal: inputs, results, signals, heartbeats, failures, summaries.

    DATAMON_ENCRYPTION_KEY=$(openssl rand -base64 32)

Workers and clients of one namespace have the same key; the server, its database and its Web UI see ciphertext: AES-256
in GCM, with a new nonce for each payload. There may be several keys, separated by commas: the first encrypts and all
decrypt, so that a key can be replaced while workflows run. What Temporal itself finds things by is not encrypted:
workflow ids, which contain the names of repos and the ids of diamonds and splits; search attributes; and the names of
task queues and workers, which contain those of hosts.
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
from temporalio.converter import DataConverter, PayloadCodec

from datamon.core.errors import BadUsage
from datamon.worker.connection.failure_traces import EncodedShortTraces, ShortTraces

log = logging.getLogger(__name__)

VARIABLE = "DATAMON_ENCRYPTION_KEY"
ENCRYPTED = b"binary/encrypted"
KEY_BYTES = 32
NONCE_BYTES = 12


def converter(keys: str, *, for_worker: bool) -> DataConverter:
    """What turns values into payloads and back; without a key, nearly as Temporal does by itself."""
    codec = Encryption(keys, strict=not for_worker)
    failures = EncodedShortTraces if keys else ShortTraces
    return replace(DataConverter.default, payload_codec=codec, failure_converter_class=failures)


class Encryption(PayloadCodec):
    """Encrypts payloads, if there is a key.

    A payload that none of our keys opens is an error for a client. A worker leaves it as it is, so that it fails alone:
    an exception here would fail everything that came with it, a whole workflow task, again and again.
    """

    def __init__(self, keys: str, *, strict: bool) -> None:
        ciphers = [_cipher(key.strip()) for key in keys.split(",")] if keys else []
        self._ciphers = dict(ciphers)
        self._first, self._strict = next(iter(self._ciphers), b""), strict

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec."""
        return [self._encrypted(payload) for payload in payloads] if self._ciphers else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """See PayloadCodec. A payload that is not encrypted, for example from the Web UI, is taken as it is."""
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
            lacks = "does not hold its key" if self._ciphers else "is not set"
            raise BadUsage(f"the answer from Temporal is encrypted, and {VARIABLE} {lacks}; set it as for the workers")
        if inside is None:
            name = payload.metadata.get("key", b"").decode(errors="replace")[:16]
            log.warning("a payload that was encrypted with key %s cannot be read; a message sent with it is lost", name)
        return payload if inside is None else inside


def _opened(cipher: Any, data: bytes) -> Payload | None:
    from cryptography.exceptions import InvalidTag

    try:
        return Payload.FromString(cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None))
    except (InvalidTag, ValueError, DecodeError):
        return None


def _cipher(key: str) -> tuple[bytes, Any]:
    """A key's name, which does not reveal the key, and the cipher."""
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
        raise BadUsage(
            f"{VARIABLE} is not a key: it takes {wanted}; of several keys, separated by commas, the first encrypts"
        )
    name = blake3(whole, derive_key_context="datamon: the name of a key").hexdigest()[:16]
    return name.encode(), AESGCM(whole)
