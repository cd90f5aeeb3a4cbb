"""
A store in a bucket of an S3-compatible server. The only module that imports boto3.

Each request carries a SHA-256 that the server checks: of the whole file if one request puts it, and of each part if it
is put in parts. The SHA-256 of the whole file is stored as metadata, because S3 computes none over several parts.
"""

import base64
import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
from botocore.response import StreamingBody

from nodes.stores.port import (
    CHUNK,
    KeyMissing,
    KeyTaken,
    Listed,
    Stored,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    check_digest,
    check_key,
)

# Bytes of a part. S3 takes at most 10,000 parts, so a file may have 670 GB.
_PART: Final = 64 * 1024 * 1024
_METADATA: Final = "sha256"
# Region that other servers accept, if the environment names none.
_REGION: Final = "us-east-1"

_CREDENTIALS: Final = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# Codes of refusals that only an operator can change, with what to do.
_REFUSALS: Final = {
    "NoSuchBucket": "the bucket does not exist. Create it, or correct the address",
    "AccessDenied": "access denied. Give the account permission to list, read, write and delete in the bucket",
    "403": "access denied. Give the account permission to list, read, write and delete in the bucket",
    "InvalidAccessKeyId": f"the access key is unknown. {_CREDENTIALS}",
    "SignatureDoesNotMatch": f"the secret access key is wrong. {_CREDENTIALS}",
    "ExpiredToken": f"the credentials have expired. {_CREDENTIALS}, and AWS_SESSION_TOKEN",
    "PermanentRedirect": "the bucket is in another region. Set AWS_REGION to its region",
    "AuthorizationHeaderMalformed": "the bucket is in another region. Set AWS_REGION to its region",
}
_ABSENT: Final = {"404", "NoSuchKey"}
_TAKEN: Final = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}


# No lower level: at DEBUG, botocore logs whole requests, with session tokens and signatures.
logging.getLogger("botocore").setLevel(logging.WARNING)


class S3Store:
    def __init__(self, *, bucket: str, prefix: str) -> None:
        self.address = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._part = _PART
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        config = Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"mode": "standard", "max_attempts": 3},
            # Other servers may not know the checksums that boto3 adds by default. This module adds its own checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # Other servers seldom have a host name for each bucket, so the bucket is in the path.
            s3={"addressing_style": "path" if endpoint else "auto"},
        )
        with self._errors_as_sentences():
            self._client: Any = boto3.session.Session().client(
                "s3",
                config=config,
                region_name=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION,
            )

    def put(self, key: str, path: Path, *, sha256: str, only_if_absent: bool = False) -> None:
        name = self._name(key)
        condition = {"IfNoneMatch": "*"} if only_if_absent else {}
        with self._errors_as_sentences(key), path.open("rb") as file:
            content = file.read(self._part)
            if len(content) == self._part:
                self._put_in_parts(key, first=content, file=file, sha256=sha256, condition=condition)
                return
            digest = hashlib.sha256(content)
            check_digest(self.address, key, expected=sha256, found=digest.hexdigest())
            self._client.put_object(
                Bucket=self._bucket, Key=name, Body=content, Metadata={_METADATA: sha256},
                ChecksumSHA256=_for_s3(digest.digest()), **condition,
            )  # fmt: skip

    def _put_in_parts(self, key: str, *, first: bytes, file: BinaryIO, sha256: str, condition: dict[str, str]) -> None:
        target = {"Bucket": self._bucket, "Key": self._name(key)}
        if condition and self.head(key) is not None:
            # S3 checks the condition only at the end of an upload, which may take minutes.
            raise self._taken(key)
        upload = self._client.create_multipart_upload(
            **target, Metadata={_METADATA: sha256}, ChecksumAlgorithm="SHA256"
        )
        target_part = {**target, "UploadId": upload["UploadId"]}
        try:
            parts: list[dict[str, Any]] = []
            whole, content = hashlib.sha256(), first
            while content:
                whole.update(content)
                checksum = _for_s3(hashlib.sha256(content).digest())
                number = len(parts) + 1
                answer = self._client.upload_part(
                    **target_part, PartNumber=number, Body=content, ChecksumSHA256=checksum
                )
                parts.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": checksum})
                content = file.read(self._part)
            check_digest(self.address, key, expected=sha256, found=whole.hexdigest())
            self._client.complete_multipart_upload(**target_part, MultipartUpload={"Parts": parts}, **condition)
        except BaseException:
            # Delete the parts of the unfinished upload: they cost money, and no list of files shows them.
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**target_part)
            raise

    def head(self, key: str) -> Stored | None:
        with self._errors_as_sentences(key):
            try:
                found = self._client.head_object(Bucket=self._bucket, Key=self._name(key))
            except ClientError as error:
                # The answer to HEAD has no body, so an absent bucket looks like an absent key.
                if _code(error) not in _ABSENT:
                    raise
                self._client.head_bucket(Bucket=self._bucket)
                return None
        return Stored(size=found["ContentLength"], sha256=found["Metadata"].get(_METADATA, ""))

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        if length == 0:
            return iter(())
        last = "" if length is None else str(offset + length - 1)
        wanted = {"Range": f"bytes={offset}-{last}"} if offset or last else {}
        with self._errors_as_sentences(key):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._name(key), **wanted)
            except ClientError as error:
                if _code(error) in {"InvalidRange", "416"}:
                    return iter(())
                raise
        return self._chunks(answer["Body"], key)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        with self._errors_as_sentences():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{self._prefix}{prefix}"
            )
            for page in pages:
                for found in page.get("Contents", ()):
                    yield Listed(found["Key"].removeprefix(self._prefix), found["Size"])

    def delete(self, key: str) -> None:
        with self._errors_as_sentences(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._name(key))

    def _name(self, key: str) -> str:
        return self._prefix + check_key(self.address, key)

    def _chunks(self, body: StreamingBody, key: str) -> Iterator[bytes]:
        with contextlib.closing(body), self._errors_as_sentences(key):
            yield from body.iter_chunks(CHUNK)

    def _taken(self, key: str) -> KeyTaken:
        return KeyTaken(f"{self.address} already has {key}. Choose another key, or allow it to be replaced")

    @contextlib.contextmanager
    def _errors_as_sentences(self, key: str = "") -> Iterator[None]:
        """Turn errors of boto3 into those of stores. No message repeats the request, which holds credentials."""
        try:
            yield
        except StoreError:
            raise
        except ClientError as error:
            raise self._error(_code(error), key) from None
        except (NoCredentialsError, PartialCredentialsError):
            raise StoreRefused(f"{self.address}: no credentials. {_CREDENTIALS}") from None
        except BotoCoreError as error:
            raise StoreUnavailable(
                f"{self.address}: the server does not answer ({type(error).__name__}). "
                "Check the network, and AWS_ENDPOINT_URL if the server is not Amazon's"
            ) from None
        except ValueError:
            raise StoreRefused(
                f"{self.address}: AWS_ENDPOINT_URL is not an address. Write it as in https://s3.example.org"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot read {error.filename} to store it: {error.strerror}") from error

    def _error(self, code: str, key: str) -> StoreError:
        if code in _TAKEN:
            return self._taken(key)
        if code in _ABSENT and key:
            if code == "404":
                return StoreRefused(f"{self.address}: {_REFUSALS['NoSuchBucket']}")
            return KeyMissing(f"{self.address} does not have {key}. It was deleted, or never stored")
        if code in _REFUSALS:
            return StoreRefused(f"{self.address}: {_REFUSALS[code]}")
        return StoreUnavailable(f"{self.address}: the server answered {code}. Try again later, or read its log")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "an error without a code"))


def _for_s3(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
