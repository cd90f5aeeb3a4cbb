"""E-mail channels, which use Django's SMTP backend."""

import contextlib
import smtplib
import ssl
from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email
from django.utils.translation import gettext_lazy as _

from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.notices.channels.letter import Letter, NotSent

_TIMEOUT: Final = 20
_MOST_RECIPIENTS: Final = 100

SCHEMA: Final = Schema(
    (
        Field(name="host", is_destination=True, kind=FieldKind.TEXT, label=_("SMTP server"), is_required=True),
        Field(name="port", is_destination=True, kind=FieldKind.WHOLE, label=_("Port"), least=1, most=65_535),
        Field(
            name="security",
            is_destination=True,
            kind=FieldKind.CHOICE,
            label=_("Encryption"),
            choices=(("starttls", _("STARTTLS")), ("tls", _("TLS")), ("none", _("none"))),
            help=_("The certificate of the server must be valid."),
        ),
        Field(name="username", kind=FieldKind.TEXT, label=_("User")),
        Field(name="password", kind=FieldKind.SECRET, label=_("Password")),
        Field(name="sender", kind=FieldKind.TEXT, label=_("Sender"), is_required=True),
        Field(name="recipients", kind=FieldKind.LINES, label=_("Recipients"), is_required=True),
    )
)


def problems_of_addresses(addresses: object, *, least: int = 1) -> list[str]:
    """Return the problems of a list of mail addresses."""
    if not isinstance(addresses, list | tuple) or not least <= len(addresses) <= _MOST_RECIPIENTS:
        return [f"Write a list of {least} to {_MOST_RECIPIENTS} mail addresses."]
    return [f"{address!r} is not a mail address." for address in addresses if not _is_address(address)]


def check(values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the problems of a configuration that the schema cannot find, by field."""
    found = {
        "host": [] if str(values["host"]).isprintable() and values["host"].strip() else ["Write the name of a server."],
        "sender": [] if _is_address(values["sender"]) else [f"{values['sender']!r} is not a mail address."],
        "recipients": problems_of_addresses(values["recipients"]),
    }
    return {name: said for name, said in found.items() if said}


def send(values: Mapping[str, Any], letter: Letter) -> str:
    """
    Send a message; return its answer.

    Raises:
        NotSent: the mail server did not accept the message.
    """
    security = values.get("security", "starttls")
    backend = EmailBackend(
        host=values["host"],
        port=values.get("port") or {"tls": 465, "starttls": 587}.get(security, 25),
        username=values.get("username", ""),
        password=values.get("password", ""),
        use_tls=security == "starttls",
        use_ssl=security == "tls",
        timeout=_TIMEOUT,
    )
    sender = values["sender"]
    recipients = list(letter.recipients or values["recipients"])
    mail = EmailMultiAlternatives(
        subject=" ".join(letter.subject.split()),
        body=letter.whole_text,
        from_email=sender,
        to=recipients,
        # The id is the same in each attempt, so that a mail server can drop a repeated message.
        headers={"Message-ID": f"<{letter.id}@{sender.rpartition('@')[2]}>", "Auto-Submitted": "auto-generated"},
        connection=backend,
    )
    mail.attach_alternative(letter.as_html, "text/html")
    for attachment in letter.attachments:
        mail.attach(attachment.name, attachment.content, attachment.media_type)
    try:
        mail.send()
    except smtplib.SMTPAuthenticationError as error:
        # The answer of a server may repeat the name or the password.
        raise NotSent(f"the mail server refused the user and the password ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise NotSent(f"the mail server refused the recipients {', '.join(error.recipients)}") from None
    except smtplib.SMTPResponseException as error:
        raise NotSent(f"the mail server answered {error.smtp_code}") from None
    except (smtplib.SMTPException, ssl.SSLError, OSError) as error:
        raise NotSent(f"the mail server cannot be used: {type(error).__name__}: {error}") from None
    finally:
        # Django does not close a connection after a failed login.
        with contextlib.suppress(OSError):
            backend.close()
    return f"accepted for {len(recipients)} recipients" if len(recipients) > 1 else f"accepted for {recipients[0]}"


def _is_address(address: object) -> bool:
    try:
        validate_email(address if isinstance(address, str) else None)
    except ValidationError:
        return False
    return True
