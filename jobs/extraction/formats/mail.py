"""E-mail as in RFC 5322 and MIME: its headers, its text, its attachments."""

import datetime as dt
import email
import email.policy
from collections.abc import Iterator
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.plain import HTML, read_html
from jobs.extraction.formats.raw import Raw, RawPart
from jobs.extraction.result import AUTHOR, CREATED, KEYWORDS, SUBJECT, ExtractionFailed, Reason
from jobs.reading.text import decoded

MEDIA_TYPE: Final = "message/rfc822"
_HEADERS: Final = {
    "From": AUTHOR,
    "To": "to",
    "Cc": "cc",
    "Reply-To": "reply_to",
    "Subject": SUBJECT,
    "Keywords": KEYWORDS,
    "Message-ID": "message_id",
    "In-Reply-To": "in_reply_to",
    "List-Id": "list_id",
}
# Errors of the standard library for headers and bodies that break the rules of e-mail.
_DEFECTS: Final = (ValueError, LookupError, TypeError, AttributeError, AssertionError)


def read_mail(body: bytes, budget: Budget) -> Raw:
    """
    Return the text of an e-mail; its attachments are parts.

    Raises:
        ExtractionFailed: the parser cannot read it.
    """
    try:
        message: Message = email.message_from_bytes(body, policy=email.policy.default)
    except (*_DEFECTS, RecursionError) as error:
        raise ExtractionFailed(Reason.DAMAGED, "e-mail") from error
    found = Raw(MEDIA_TYPE)
    for theirs, ours in _HEADERS.items():
        for value in _values_of(message, theirs):
            found.note(ours, value)
    found.note(CREATED, _date_of(message))
    found.title = next(iter(found.metadata.get(SUBJECT, [])), "")
    leaves = list(_leaves_of(message, budget.limits.levels))
    budget.check_members(len(leaves))
    chosen, beside = _chosen_of(leaves)
    found.text = "\n".join(filter(None, (_text_of(leaf) for leaf in chosen)))
    shown = {id(leaf) for leaf in (*chosen, *beside)}
    found.parts = _attachments_of([leaf for leaf in leaves if id(leaf) not in shown], budget)
    return found


def _values_of(message: Message, name: str) -> list[str]:
    try:
        return [str(value) for value in message.get_all(name, [])]
    except _DEFECTS:
        return []


def _date_of(message: Message) -> str | None:
    try:
        moment: dt.datetime = parsedate_to_datetime(str(message["Date"] or ""))
    except _DEFECTS:
        return None
    return moment.isoformat()


def _leaves_of(message: Message, levels: int) -> Iterator[Message]:
    """Yield the parts that are not multiparts. An attached e-mail is one part, and its own parts are not yielded."""
    waiting = [(message, 0)]
    while waiting:
        part, level = waiting.pop()
        if level > 20 * levels:
            raise ExtractionFailed(Reason.NESTED, "multiparts are nested too deeply")
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            inner = part.get_payload()
            waiting += (
                [(one, level + 1) for one in reversed(inner) if isinstance(one, Message)]
                if isinstance(inner, list)
                else []
            )
        else:
            yield part


def _chosen_of(leaves: list[Message]) -> tuple[list[Message], list[Message]]:
    """
    Return the leaves that have the text of the e-mail, and leaves that are left out because they have the same text in
    another form.
    """
    texts = [leaf for leaf in leaves if leaf.get_content_maintype() == "text" and not _is_attached(leaf)]
    plain = [leaf for leaf in texts if leaf.get_content_subtype() == "plain"]
    pages = [leaf for leaf in texts if leaf.get_content_subtype() == "html"]
    if any(_payload_of(leaf).strip() for leaf in plain):
        # The HTML alternative has the same text.
        return plain, pages
    return pages, plain


def _is_attached(part: Message) -> bool:
    try:
        return part.get_content_disposition() == "attachment" or part.get_filename() is not None
    except _DEFECTS:
        return True


def _payload_of(part: Message) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except _DEFECTS:
        return b""
    return payload if isinstance(payload, bytes) else b""


def _text_of(part: Message) -> str:
    content_type = _content_type_of(part)
    if part.get_content_type() == HTML:
        return read_html(_payload_of(part), content_type).text
    return decoded(_payload_of(part), content_type).strip()


def _content_type_of(part: Message) -> str:
    try:
        charset = part.get_content_charset()
    except _DEFECTS:
        charset = None
    return f"{part.get_content_type()}; charset={charset}" if charset else part.get_content_type()


def _attachments_of(leaves: list[Message], budget: Budget) -> Iterator[RawPart]:
    for number, leaf in enumerate(leaves, 1):
        try:
            name = leaf.get_filename() or ""
        except _DEFECTS:
            name = ""
        if leaf.get_content_type() == MEDIA_TYPE and leaf.is_multipart():
            inner = leaf.get_payload()
            body = _bytes_of(inner[0]) if isinstance(inner, list) and inner else b""
            name = name or f"message-{number}.eml"
        else:
            body = _payload_of(leaf)
        budget.unpack(len(body))
        yield RawPart(name or f"attachment-{number}", body, content_type=_content_type_of(leaf))


def _bytes_of(message: Any) -> bytes:  # noqa: ANN401 (a payload may be anything)
    try:
        return bytes(message.as_bytes(policy=email.policy.compat32))
    except (*_DEFECTS, RecursionError):
        return b""
