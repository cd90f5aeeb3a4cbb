"""
An external Apache Tika server: a stage that sends documents to it, and gets their text and metadata.

    PUT /rmeta/text      a list of JSON objects: the document, then what it embeds
    200                  the text is under X-TIKA:content
    204, 415             the server knows no reader for the type: the document passes as it is
    422                  the server cannot read this document: encrypted or damaged
    429, 503             the server is busy or starts again: the document is read again later
    no connection        as 503
    no answer in time    a failure of this document, and so is every other status
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp
from django.utils.translation import gettext_lazy as _

from jobs.connectors.metadata import bounded, pairs_of
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Candidate, Item, Runs, Stage, TransformationKind, Unavailable
from jobs.connectors.transformation.extract import address_of
from jobs.extraction.kinds import is_text_type

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 2
_SECONDS: Final = 60.0
_CONNECTIONS: Final = 4
# Longest answer (bytes).
_MOST_ANSWER: Final = 64 * 1024 * 1024
# Delay until another attempt if the server names no delay, and the longest delay (seconds).
_AGAIN_AFTER: Final = 30.0
_LONGEST_WAIT: Final = 3600.0
_CONTENT: Final = "X-TIKA:content"
_PATH: Final = ("X-TIKA:final_embedded_resource_path", "X-TIKA:embedded_resource_path")
_TYPE: Final = "Content-Type"
_TITLES: Final = ("dc:title", "title")
_LANGUAGES: Final = ("dc:language", "language", "Content-Language")
# Our names of Tika's properties.
NAMES: Final = {
    "dc:creator": "author",
    "dcterms:created": "created",
    "dcterms:modified": "modified",
    "dc:subject": "subject",
    "meta:keyword": "keywords",
    "dc:description": "description",
    "dc:publisher": "publisher",
    "xmpTPg:NPages": "pages",
    "pdf:producer": "producer",
    "Message-From": "author",
    "Message-To": "to",
    "Message-Cc": "cc",
}
# Prefix of the names of properties that the author of a file has defined.
_CUSTOM: Final = "custom:"

_SETTINGS: Final = Schema(
    (
        Field(
            name="url",
            kind=FieldKind.TEXT,
            label=_("Address"),
            help=_("Address of the Tika server, such as http://127.0.0.1:9998"),
            is_required=True,
        ),
        Field(
            name="seconds",
            kind=FieldKind.NUMBER,
            label=_("Time limit"),
            help=_("Seconds for one document. The default is 60."),
            least=1,
            most=3600,
        ),
        Field(
            name="connections",
            kind=FieldKind.WHOLE,
            label=_("Connections"),
            help=_("Documents that a worker sends at once. The default is 4."),
            least=1,
            most=100,
        ),
    )
)


class TikaFailed(Exception):
    """The server cannot read a document. The message is a sentence for people."""


class Tika(Stage):
    """A stage that asks a Tika server, with its settings."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._url = values["url"].strip().rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=values.get("seconds", _SECONDS))
        self._free = asyncio.Semaphore(values.get("connections") or _CONNECTIONS)
        # A server at another address may have another version of Tika, so its results may differ.
        self.description = f"tika {_RULES} {json.dumps(self._url)}"

    def reads(self, candidate: Candidate) -> bool:
        return not is_text_type(candidate.content_type)

    def transform(self, item: Item) -> Sequence[Item]:
        raise NotImplementedError("this stage runs in the loop")

    async def transform_async(self, item: Item) -> Sequence[Item]:
        """
        Return the document with its text, and the embedded files as components.

        Raises:
            TikaFailed: the server cannot read the document.
            Unavailable: the server does not answer now.
        """
        if item.body is None or item.text or is_text_type(item.content_type):
            return (item,)
        async with self._free:
            try:
                entries = await self._ask(item)
            except TimeoutError as error:
                raise TikaFailed(f"Tika did not answer within {self._timeout.total:g} s.") from error
            except aiohttp.ClientConnectorError as error:
                raise Unavailable(
                    f"The Tika server {self._url} cannot be reached.", retry_after=_AGAIN_AFTER
                ) from error
            except (aiohttp.ClientError, OSError) as error:
                # Not retried: the document may have crashed the server.
                raise TikaFailed(f"The answer of Tika ended early ({type(error).__name__}).") from error
        return (item,) if not entries else tuple(_items_of(entries, item))

    async def _ask(self, item: Item) -> list[Mapping[str, Any]]:
        headers = {"Accept": "application/json", "Content-Type": item.content_type or "application/octet-stream"}
        name = item.component or urlsplit(item.url).path
        if last := name.rpartition("/")[2]:
            headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(last[:200], safe='')}"
        async with (
            aiohttp.ClientSession(timeout=self._timeout, auto_decompress=False) as session,
            session.put(f"{self._url}/rmeta/text", data=item.body, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status in {204, 415}:
                return []
            if answer.status in {429, 503}:
                after = _seconds_of(answer.headers.get("Retry-After", ""))
                raise Unavailable(f"The Tika server {self._url} answered {answer.status}.", retry_after=after)
            if answer.status == 422:
                raise TikaFailed("Tika cannot read the document: it is encrypted, damaged or not supported.")
            if answer.status != 200:
                raise TikaFailed(f"Tika answered {answer.status}.")
            return _entries_of(await _read(answer))


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > _MOST_ANSWER:
            raise TikaFailed(f"The answer of Tika is longer than {_MOST_ANSWER // 2**20} MiB.")
        chunks.append(chunk)
    return b"".join(chunks)


def _entries_of(body: bytes) -> list[Mapping[str, Any]]:
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TikaFailed("The answer of Tika is not JSON.") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TikaFailed("The answer of Tika is not a list of objects.")
    return entries


def _items_of(entries: Sequence[Mapping[str, Any]], item: Item) -> Iterator[Item]:
    document, *embedded = entries
    kept = bounded(pairs_of(_metadata_of(document)))
    yield replace(
        item,
        body=None,
        text=_first(document, (_CONTENT,)).strip(),
        title=_first(document, _TITLES) or item.title,
        language=_first(document, _LANGUAGES) or item.language,
        content_type=_first(document, (_TYPE,)).partition(";")[0].strip().lower() or item.content_type,
        metadata=bounded(pairs_of({**item.metadata, **kept})),
    )
    for number, entry in enumerate(embedded, 1):
        path = _first(entry, _PATH).strip("/") or f"part-{number}"
        component = f"{item.component}!/{path}" if item.component else path
        yield Item(
            url=address_of(item, component),
            content_type=_first(entry, (_TYPE,)).partition(";")[0].strip().lower(),
            text=_first(entry, (_CONTENT,)).strip(),
            title=_first(entry, _TITLES) or path.rpartition("/")[2],
            language=_first(entry, _LANGUAGES),
            originated_at=item.originated_at,
            metadata=bounded(pairs_of(_metadata_of(entry))),
            component=component,
        )


def _metadata_of(entry: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for theirs, value in entry.items():
        ours = NAMES.get(theirs) or (theirs if theirs.startswith(_CUSTOM) else None)
        if ours is not None:
            found[ours] = (*found.get(ours, ()), *_texts_of(value))
    return found


def _first(entry: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((text for name in names for text in _texts_of(entry.get(name)) if text), "")


def _texts_of(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    texts = (one for one in values if isinstance(one, str))
    return tuple(text.replace("\0", "").encode(errors="replace").decode() for text in texts)


def _seconds_of(retry_after: str) -> float:
    return min(float(retry_after), _LONGEST_WAIT) if retry_after.isascii() and retry_after.isdigit() else _AGAIN_AFTER


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    address = values.get("url", "").strip()
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    return {} if is_valid else {"url": [f"{address!r} is not an address of a server. Write http://127.0.0.1:9998."]}


TIKA: Final = TransformationKind(
    name="tika",
    label=_("Tika server"),
    help=_("Sends documents to an Apache Tika server, and gets their text and metadata."),
    settings=_SETTINGS,
    open=Tika,
    judge=_judge,
    runs_in=Runs.IN_LOOP,
)
