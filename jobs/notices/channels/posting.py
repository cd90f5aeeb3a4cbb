"""
Channels that post JSON: webhooks, Slack, and Rocket.Chat.

Requests follow no redirect, have a time limit, and read only the beginning of the answer.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.notices.channels.letter import Letter, NotSent
from jobs.notices.channels.signing import read_secret, signed_headers

_TIMEOUT: Final = 15.0
# Number of bytes of an answer that are read, and of characters that are kept.
_READ: Final = 1_000
_KEPT: Final = 200
_LONGEST_ADDRESS: Final = 2_000
# Longest text of a chat message (characters). Slack cuts longer ones.
_LONGEST_CHAT: Final = 3_000

WEBHOOK: Final = Schema(
    (
        Field(name="url", kind=FieldKind.TEXT, label=_("Address"), is_required=True),
        Field(
            name="secret",
            kind=FieldKind.SECRET,
            label=_("Secret"),
            help=_("“whsec_”, followed by 24 to 64 bytes in base64, as in Standard Webhooks."),
            is_required=True,
        ),
    )
)
# The address of an incoming webhook is the secret itself.
CHAT: Final = Schema(
    (Field(name="url", kind=FieldKind.SECRET, label=_("Address of the incoming webhook"), is_required=True),)
)


def check(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the problems of a configuration that the schema cannot find, by field."""
    found = {"url": _problems_of_address(values["url"])}
    if "secret" in values:
        try:
            read_secret(values["secret"])
        except ValueError:
            found["secret"] = ["A secret is whsec_ and base64 of 24 to 64 bytes."]
    return {name: said for name, said in found.items() if said}


def send_webhook(values: Mapping[str, Any], letter: Letter) -> str:
    """
    Post a signed message; return the beginning of the answer.

    Raises:
        NotSent: the receiver did not accept the message.
    """
    data = {
        "id": letter.id,
        "about": letter.about,
        "topic": letter.topic,
        "rule": letter.rule,
        "subject": letter.subject,
        "text": letter.text,
        "link": letter.link,
        "since": letter.since.isoformat() if letter.since else None,
    }
    kind = ".".join(filter(None, ("crawlctl", letter.topic, letter.about)))
    body = json.dumps({"type": kind, "timestamp": letter.at.isoformat(), "data": data}).encode()
    timestamp = int(time.time())
    return _post(
        values["url"], body, signed_headers(values["secret"], message=letter.id, timestamp=timestamp, body=body)
    )


def send_slack(values: Mapping[str, Any], letter: Letter) -> str:
    """
    Post a message to an incoming webhook of Slack; return the beginning of the answer.

    Raises:
        NotSent: Slack did not accept the message.
    """
    said = letter.whole_text[:_LONGEST_CHAT]
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        said = said.replace(sign, name)
    return _post(values["url"], json.dumps({"text": said}).encode())


def send_rocket_chat(values: Mapping[str, Any], letter: Letter) -> str:
    """
    Post a message to an incoming webhook of Rocket.Chat; return the beginning of the answer.

    Raises:
        NotSent: Rocket.Chat did not accept the message.
    """
    # A text from the web must not notify people by @name, so a zero-width space follows each @.
    said = letter.whole_text[:_LONGEST_CHAT].replace("@", "@\u200b")
    return _post(values["url"], json.dumps({"text": said}).encode())


def _post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
    try:
        return asyncio.run(_post_once(url, body, headers or {}))
    except TimeoutError:
        raise NotSent(f"no answer within {_TIMEOUT:.0f} s") from None
    except aiohttp.ClientError as error:
        # The text of an error may contain the address, which may be a secret.
        raise NotSent(f"the request failed: {type(error).__name__}") from None
    except (ValueError, OSError) as error:
        raise NotSent(f"the request failed: {type(error).__name__}") from None


async def _post_once(url: str, body: bytes, headers: Mapping[str, str]) -> str:
    said = {"Content-Type": "application/json", "User-Agent": "crawlctl", **headers}
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with (
        aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post(url, data=body, headers=said, allow_redirects=False) as response,
    ):
        content = await response.content.read(_READ)
    text = " ".join("".join(c if c.isprintable() else " " for c in content.decode(errors="replace")).split())[:_KEPT]
    if not 200 <= response.status < 300:
        raise NotSent(f"answered {response.status}: {text}"[:_KEPT])
    return f"{response.status} {text}"[:_KEPT]


def _problems_of_address(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return ["Write an address such as https://example.org/hook."]
    if not is_good or len(url) > _LONGEST_ADDRESS or not url.isprintable() or " " in url:
        return ["Write an address such as https://example.org/hook."]
    if parts.username is not None or parts.password is not None:
        return ["An address must not have a user or a password."]
    return []
