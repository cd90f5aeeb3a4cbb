"""The content of one message, from which each kind of channel makes its own form."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file of an e-mail."""

    name: str
    content: str
    media_type: str = "text/csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """
    One message. `id` stays the same in each attempt, so that a receiver can drop a repeated one.

    `link` is an address, or a path if the public address of the pages is not configured. `html` replaces the HTML that
    is made of the text. `recipients` replace those of an e-mail channel.
    """

    id: str
    about: str
    topic: str
    rule: str
    subject: str
    text: str
    link: str
    at: dt.datetime
    since: dt.datetime | None = None
    html: str = ""
    recipients: Sequence[str] = ()
    attachments: Sequence[Attachment] = ()

    @property
    def whole_text(self) -> str:
        """Return the message as plain text, with its link."""
        return f"{self.text}\n\n{self.link}\n" if self.link else f"{self.text}\n"

    @property
    def as_html(self) -> str:
        """Return the message as HTML."""
        if self.html:
            return self.html
        link = f'<p><a href="{escape(self.link)}">{escape(self.link)}</a></p>' if self.link.startswith("http") else ""
        return f"<p>{'<br>'.join(escape(self.text).splitlines())}</p>{link}"


class NotSent(Exception):
    """The message was not sent. The text is for people and holds no secret."""
