"""The store of an address."""

import re
from pathlib import Path
from typing import Final

from nodes.stores.directory import DirectoryStore
from nodes.stores.port import InvalidAddress, Store

_S3: Final = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[A-Za-z0-9_.=+@:,~/-]*))?")
# Regular expression that every address of a store matches.
ADDRESS: Final = rf"dir:/\S*|{_S3.pattern}"


def open_store(address: str) -> Store:
    """
    Return the store of an address: `dir:/path`, or `s3://bucket/prefix`. Nothing is opened or read before its first use.

    S3 takes its credentials, its region and the address of another server from the AWS environment variables:
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL.

    Raises:
        InvalidAddress
    """
    if address.startswith("dir:"):
        path = Path(address.removeprefix("dir:"))
        if not path.is_absolute():
            raise InvalidAddress(
                f"{address!r} has no absolute path. Write dir: and an absolute path, as in dir:/backups"
            )
        return DirectoryStore(path)
    if found := _S3.fullmatch(address):
        # boto3 takes a quarter of a second to import, and most processes use no store.
        from nodes.stores.s3 import S3Store  # noqa: PLC0415

        return S3Store(bucket=found["bucket"], prefix=(found["prefix"] or "").strip("/"))
    if "@" in address:
        # The text may hold credentials, so the message does not repeat it.
        raise InvalidAddress(
            "the address of the store is invalid. Write dir:/path or s3://bucket/prefix. "
            "Credentials belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    raise InvalidAddress(f"{address!r} is not the address of a store. Write dir:/path or s3://bucket/prefix")
