"""The subjects and texts of messages."""

import datetime as dt
from collections.abc import Sequence

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.notices.decisions import Occurrence
from jobs.notices.models import NotificationMessage
from jobs.notices.topics import TOPICS

About = NotificationMessage.About
# Largest number of suppressed messages that a summary names.
_NAMED = 10


def absolute(link: str) -> str:
    """Return the address of a page; the path alone if no public address of the pages is configured."""
    if not link.startswith("/") or not settings.CSRF_TRUSTED_ORIGINS:
        return link
    return f"{settings.CSRF_TRUSTED_ORIGINS[0].rstrip('/')}{link}"


def subject_of(about: str, topic: str, subject: str) -> str:
    """Return the subject of a message about a condition or an event."""
    title = _("%(title)s: %(subject)s") % {"title": TOPICS.get(topic, topic), "subject": subject}
    said = {About.REMINDER: _("Reminder: %s"), About.ENDED: _("Ended: %s")}.get(About(about), "%s")
    return said % title


def text_of(about: str, seen: Occurrence, *, now: dt.datetime) -> str:
    """Return the text of a message about a condition or an event."""
    parts = [seen.sentence]
    if about == About.ENDED:
        parts = [_("Since %(now)s, this is no longer the case: %(said)s") % {"now": moment(now), "said": seen.sentence}]
    if seen.since is not None:
        parts.append(_("Since %(since)s.") % {"since": moment(seen.since)})
    return "\n".join(parts)


def summary(suppressed: Sequence[NotificationMessage], *, number: int) -> tuple[str, str]:
    """Return the subject and the text of a message that sums up suppressed ones, the oldest first."""
    subject = ngettext("%(n)d message was suppressed", "%(n)d messages were suppressed", number) % {"n": number}
    first = _("The channel reached its limit of messages an hour, or was muted. Suppressed since %(since)s:") % {
        "since": moment(suppressed[0].at)
    }
    named = [f"- {message.subject}" for message in suppressed[:_NAMED]]
    if number > len(named):
        named.append(_("and %(n)d more") % {"n": number - len(named)})
    return subject, "\n".join([first, *named])


def moment(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
