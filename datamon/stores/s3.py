"""A store in S3, or on any server with the same API that honours conditional writes: a key is an object below a prefix.

    create    PUT with If-None-Match: *      one of many concurrent writers gets through
    replace   PUT with If-Match: ETag        the version is the ETag
    get       GET of a range                 read again where the body breaks off, or is shorter than it says

A server that ignores these conditions would let one writer overwrite another silently. So the first write of a process
tests whether they are honoured, and refuses a server that ignores them (`_check_conditions`).

Credentials, region and endpoint come from boto3's own chain (AWS_ENDPOINT_URL and friends), in each process anew,
so none of them travels with a store that is sent to a Spark task.
"""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import islice
from typing import Any, ClassVar, TypeVar

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from botocore.utils import parse_timestamp
from urllib3.exceptions import HTTPError

from datamon.core.errors import (
    AlreadyExists,
    DatamonError,
    NotFound,
    ObjectChanged,
    StoreFull,
    StoreRefused,
    StoreUnreachable,
)
from datamon.stores import keys
from datamon.stores.protocol import ObjectInfo, SignedRequest, Versioned, s3_location
from datamon.version import __version__

CONNECTIONS = 64  # what a process keeps open: as many as its threads can have in flight
ATTEMPTS = 5  # of one request, waiting longer each time, up to a quarter of a minute in all
MULTIPART_BYTES = 64 << 20  # a larger object goes up in pieces, so that a broken connection costs one of them
PIECE_BYTES = 16 << 20
PIECES_AT_ONCE = 4
PAGE = 1000  # keys in a listing or a deletion: the most that S3 takes

_PASSING = frozenset(  # these come with the status of a refusal, but the next attempt may succeed
    {
        "BadDigest",
        "IncompleteBody",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "SlowDown",
        "XAmzContentChecksumMismatch",
        "XAmzContentSHA256Mismatch",
    }
)

_NO_ROOM = frozenset({"QuotaExceeded", "XMinioStorageFull"})

Answer = TypeVar("Answer")

_making = threading.Lock()
_checked: set[tuple[int, str, str]] = set()  # process, profile and bucket of servers that honour conditions


@dataclass(frozen=True)
class S3Object:
    """What a listing says of an object. `key` is below the store's prefix."""

    key: str
    size: int
    modified: datetime
    etag: str


@dataclass(frozen=True)
class S3Store:
    """The ObjectStore over `s3://bucket/prefix`."""

    is_remote: ClassVar[bool] = True
    url: str
    profile: str = ""
    bucket: str = field(init=False)
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        bucket, prefix = s3_location(self.url)
        object.__setattr__(self, "bucket", bucket)
        object.__setattr__(self, "prefix", prefix)

    @property
    def client(self) -> Any:
        """The process's S3 client. It is made when it is needed, and anew after a fork."""
        with _making:  # two threads may use a client, but not make one, at the same time
            try:
                return _client(os.getpid(), self.profile)
            except (BotoCoreError, ValueError) as error:
                raise StoreRefused(self.url, str(error)) from error

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See ObjectStore. The caller knows the digest of what it reads, so the server's checksum is not asked for.

        The whole object is asked for as a range too, because such an answer says how many bytes it has.
        """
        return self._range(key, start, length)[0]

    def get_versioned(self, key: str) -> Versioned:
        """See ObjectStore."""
        return Versioned(*self._range(key, 0, None, ChecksumMode="ENABLED"))

    def get_if(self, key: str, etag: str, start: int, length: int) -> bytes:
        """A range of an object as long as it is the version with this ETag, else ObjectChanged."""
        return self._range(key, start, length, IfMatch=etag)[0]

    def stat(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        item = self.head(key)
        return ObjectInfo(key, item.size, item.modified.timestamp()) if item is not None else None

    def exists(self, key: str) -> bool:
        """See ObjectStore."""
        return self.head(key) is not None

    def head(self, key: str) -> S3Object | None:
        """What the server says about an object, if it is there."""
        try:
            answer = self._call(key, self.client.head_object, Key=self.prefix + key)
        except NotFound:
            return None
        return S3Object(key, answer["ContentLength"], answer["LastModified"], answer["ETag"])

    def create(self, key: str, body: bytes) -> None:
        """See ObjectStore. After a lost answer, a refusal may be due to our own write, so the bytes decide."""
        try:
            self._put(key, body, IfNoneMatch="*")
        except _Unmet as unmet:
            if not unmet.repeated or self.get(key) != body:
                raise AlreadyExists("object", key) from None

    def replace(self, key: str, body: bytes, version: str) -> None:
        """See ObjectStore."""
        try:
            self._put(key, body, IfMatch=version)
        except _Unmet as unmet:
            current = self.get_versioned(key)  # NotFound, if it was removed
            if not unmet.repeated or current.body != body:
                raise ObjectChanged(key) from None

    def delete(self, key: str) -> None:
        """See ObjectStore."""
        self._call(key, self.client.delete_object, Key=self.prefix + key)

    def delete_many(self, keys: Iterable[str]) -> int:
        """See ObjectStore. A request takes a thousand keys."""
        count, rest = 0, iter(keys)
        while batch := list(islice(rest, PAGE)):
            wanted = {"Objects": [{"Key": self.prefix + key} for key in batch], "Quiet": True}
            answer = self._call(batch[0], self.client.delete_objects, Delete=wanted)
            for error in answer.get("Errors", []):
                passes = error["Code"] in _PASSING or error["Code"] in ("InternalError", "ServiceUnavailable")
                kind = StoreUnreachable if passes else StoreRefused
                raise kind(self.url, f"{error['Key']} cannot be deleted: {error.get('Message', error['Code'])}")
            count += len(batch)
        return count

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See ObjectStore."""
        return (info.key for info in self.list(prefix))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See ObjectStore."""
        for page in self._pages(self.prefix + prefix):
            for item in page.get("Contents", []):
                yield ObjectInfo(item["Key"].removeprefix(self.prefix), item["Size"], item["LastModified"].timestamp())

    def sign_get(self, key: str, seconds: int) -> SignedRequest | None:
        """See ObjectStore."""
        return SignedRequest(self._sign("get_object", key, seconds))

    def sign_create(self, key: str, seconds: int, size: int, sha256: str) -> SignedRequest | None:
        """See ObjectStore. Length, checksum and condition are signed, so the server itself refuses anything else."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        self._require_conditions()
        options = {"ContentLength": size, "ChecksumSHA256": checksum, "IfNoneMatch": "*"}
        headers = {"Content-Length": str(size), "x-amz-checksum-sha256": checksum, "If-None-Match": "*"}
        return SignedRequest(self._sign("put_object", key, seconds, **options), headers)

    def _sign(self, operation: str, key: str, seconds: int, **options: Any) -> str:
        params = {"Bucket": self.bucket, "Key": self.prefix + key, **options}
        with self._understood(key):
            url: str = self.client.generate_presigned_url(operation, Params=params, ExpiresIn=seconds)
        return url

    def clock(self) -> float | None:
        """See ObjectStore."""
        answer: Any = self._call("", self.client.list_objects_v2, Prefix=self.prefix, MaxKeys=1)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            return parsedate_to_datetime(date).timestamp()
        except ValueError:
            return None

    def folders(self, prefix: str) -> Iterator[str]:
        """See ObjectStore."""
        return iter(sorted(name for name, item in self.scan(prefix) if item is None))

    def scan(self, folder: str, after: str = "") -> Iterator[tuple[str, S3Object | None]]:
        """The names directly below a folder (empty, or ending in `/`), past `after`: objects, and None for folders."""
        whole = self.prefix + folder
        start = {"StartAfter": whole + after} if after else {}
        for page in self._pages(whole, Delimiter="/", **start):
            level = {item["Prefix"]: None for item in page.get("CommonPrefixes", [])}
            level |= {item["Key"]: self._listed(item) for item in page.get("Contents", [])}
            level.pop(whole, None)  # some tools put an empty object in the place of a folder
            for key in sorted(level):
                yield key[len(whole) :].rstrip("/"), level[key]

    def _listed(self, item: Any) -> S3Object | None:
        return S3Object(item["Key"].removeprefix(self.prefix), item["Size"], item["LastModified"], item["ETag"])

    def _pages(self, prefix: str, **options: Any) -> Iterator[Any]:
        """All pages of a listing. It goes on as long as the server names a next page, even after an empty one."""
        options |= {"Prefix": prefix, "MaxKeys": PAGE}
        while True:
            page = self._call(prefix, self.client.list_objects_v2, **options)
            yield page
            if not page.get("IsTruncated"):
                return
            options["ContinuationToken"] = page["NextContinuationToken"]

    def _range(self, key: str, start: int, length: int | None, **options: Any) -> tuple[bytes, str]:
        """Bytes of an object, and its ETag. An incomplete body is read again."""
        if length == 0:
            return b"", ""
        options["Range"] = f"bytes={start}-{'' if length is None else start + length - 1}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self._call(key, self.client.get_object, Key=self.prefix + key, **options)
                body = answer["Body"].read()
                _check_whole(body, start, length, answer.get("ContentRange", ""))
                return body, answer["ETag"]
            except _Unmet:
                raise ObjectChanged(key) from None
            except _PastTheEnd:
                return b"", ""
            except (BotoCoreError, HTTPError, OSError) as error:
                if attempt == ATTEMPTS:
                    raise StoreUnreachable(self.url, f"reading {key} broke off: {error}") from error
                time.sleep(_pause(attempt))
        raise AssertionError

    def _check_conditions(self) -> None:
        """Test whether the server honours conditions: it must refuse both of these writes.

        The object that they go to is empty and stays, so that only the first process ever creates it.
        """
        ignored = "the server ignores {}, so writers would overwrite each other; use one that honours conditions"
        with suppress(_Unmet):
            self._put_once(keys.PROBE, b"", {"IfNoneMatch": "*"})
        for name, condition in (("If-None-Match", {"IfNoneMatch": "*"}), ("If-Match", {"IfMatch": '"0"'})):
            try:
                self._put_once(keys.PROBE, b"", condition)
            except _Unmet:
                continue
            raise StoreRefused(self.url, ignored.format(name))

    def _require_conditions(self) -> None:
        """Check the server, once in a process."""
        checked = (os.getpid(), self.profile, self.bucket)
        if checked not in _checked:
            self._check_conditions()
            _checked.add(checked)

    def _put(self, key: str, body: bytes, **condition: str) -> None:
        self._require_conditions()
        self._put_once(key, body, condition)

    def _put_once(self, key: str, body: bytes, condition: dict[str, str]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if len(body) > MULTIPART_BYTES:
                    self._put_in_pieces(key, body, condition)
                else:
                    self._call(key, self.client.put_object, Key=self.prefix + key, Body=body, **condition)
                return
            except _Racing as error:
                if attempt == ATTEMPTS:
                    raise StoreUnreachable(self.url, f"others are writing {key} at the same time") from error
                time.sleep(_pause(attempt))

    def _put_in_pieces(self, key: str, body: bytes, condition: dict[str, str]) -> None:
        name: dict[str, Any] = {"Key": self.prefix + key}
        name["UploadId"] = self._call(key, self.client.create_multipart_upload, **name)["UploadId"]
        whole = memoryview(body)

        def put(number: int) -> dict[str, Any]:
            piece = bytes(whole[(number - 1) * PIECE_BYTES : number * PIECE_BYTES])
            answer = self._call(key, self.client.upload_part, **name, PartNumber=number, Body=piece)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        try:
            with ThreadPoolExecutor(PIECES_AT_ONCE) as pool:
                parts = list(pool.map(put, range(1, -(-len(body) // PIECE_BYTES) + 1)))
            end = self.client.complete_multipart_upload
            self._call(key, end, **name, MultipartUpload={"Parts": parts}, **condition)
        except BaseException:
            with suppress(DatamonError, _Answer):
                self._call(key, self.client.abort_multipart_upload, **name)
            raise

    def _call(self, key: str, request: Callable[..., Answer], **options: Any) -> Answer:
        with self._understood(key):
            return request(Bucket=self.bucket, **options)

    @contextmanager
    def _understood(self, key: str) -> Iterator[None]:
        """Turn what boto3 raises, after all its own attempts, into what a store raises."""
        try:
            yield
        except ClientError as error:
            raise self._meaning(key, error) from error
        except NoCredentialsError as error:
            raise StoreRefused(self.url, "there are no AWS credentials") from error
        except SSLError as error:
            raise StoreRefused(self.url, str(error)) from error
        except (HTTPClientError, NoConnection) as error:
            raise StoreUnreachable(self.url, f"no answer from {self.client.meta.endpoint_url}") from error
        except BotoCoreError as error:
            raise StoreRefused(self.url, str(error)) from error

    def _meaning(self, key: str, error: ClientError) -> Exception:
        details = error.response.get("Error", {})
        metadata = error.response.get("ResponseMetadata", {})
        code, status = details.get("Code", ""), metadata.get("HTTPStatusCode", 0)
        reason = f"{details.get('Message') or code} ({status})"
        match status:
            case 404 if code == "NoSuchBucket":
                return StoreRefused(self.url, f"there is no bucket {self.bucket!r}")
            case 404:
                return NotFound("object", key)
            case 412:
                return _Unmet(metadata.get("RetryAttempts", 0) > 0)
            case 409 if code in ("ConditionalRequestConflict", "OperationAborted"):
                return _Racing()
            case 416:
                return _PastTheEnd()
            case _ if status == 507 or code in _NO_ROOM:
                return StoreFull(self.url, reason)
            case 408 | 429:
                return StoreUnreachable(self.url, reason)
            case _ if (300 <= status < 500 and code not in _PASSING) or status == 501:
                return StoreRefused(self.url, reason)
        return StoreUnreachable(self.url, reason)


class _Answer(Exception):
    """An answer of a server that its caller has to interpret."""


class _Unmet(_Answer):
    """The condition of a request did not hold. `repeated`: boto3 had sent it before, perhaps with success."""

    def __init__(self, repeated: bool) -> None:  # noqa: FBT001
        super().__init__(repeated)
        self.repeated = repeated


class _Racing(_Answer):
    """Another conditional write to the same key was under way."""


class _PastTheEnd(_Answer):
    """A range that starts behind the last byte."""


@cache
def _client(pid: int, profile: str) -> Any:  # noqa: ARG001 - what it is cached by
    """One client per process and profile: threads may share it, but a forked child must not share its sockets."""
    custom = any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=CONNECTIONS,
        connect_timeout=10,
        read_timeout=60,
        tcp_keepalive=True,
        request_checksum_calculation="when_supported",
        response_checksum_validation="when_required",  # content is checked against its own, stronger hash
        signature_version="s3v4",
        s3={"addressing_style": "path"} if custom else None,
        user_agent=f"datamon/{__version__}",
    )
    session = botocore.session.Session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    return boto3.session.Session(profile_name=profile or None, botocore_session=session).client("s3", config=config)


def _timestamp(text: Any) -> datetime:
    """A time as S3 writes it, in a header or in a listing. botocore's own way takes a tenth of a request."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        pass
    try:
        return parsedate_to_datetime(text)
    except (AttributeError, TypeError, ValueError):
        found: datetime = parse_timestamp(text)
        return found


def _check_whole(body: bytes, start: int, length: int | None, content_range: str) -> None:
    """Check that all of a range came: a gateway may hand on what it has received so far as if it were everything.

    A server that does not support ranges sends the whole object, and no Content-Range.
    """
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", content_range)
    if match is None:
        return
    first, last, size = map(int, match.groups())
    stop = size if length is None else min(size, start + length)
    if (first, last + 1, len(body)) != (start, stop, stop - start):
        raise OSError(f"received {len(body)} bytes, but Content-Range is {content_range}")


def _pause(attempt: int) -> float:
    """Seconds to wait before the next attempt: longer each time."""
    return min(0.1 * 2.0**attempt, 5.0)
