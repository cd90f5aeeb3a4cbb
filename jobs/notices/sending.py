"""The task that sends one message."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F

from jobs.notices.channels.letter import Letter, NotSent
from jobs.notices.channels.registry import find
from jobs.notices.models import LONGEST_ANSWER, NotificationChannel, NotificationMessage
from jobs.notices.texts import absolute
from nodes.database.clock import read_clock
from nodes.database.texts import storable
from nodes.tasks.context import TaskContext

State = NotificationMessage.State


def send_notice(context: TaskContext, arguments: Mapping[str, Any]) -> str | None:
    """
    Send a message once; return the answer of the receiver. A message that was sent already is not sent again.

    Raises:
        NotSent: another attempt follows by the policy of the channel.
    """
    message = (
        NotificationMessage.objects.select_related("channel", "rule")
        .filter(pk=arguments["message"], state__in=[State.WAITING, State.FAILED])
        .first()
    )
    if message is None:
        return None
    letter = Letter(
        id=f"msg_crawlctl_{message.pk}",
        about=message.about,
        topic=message.topic,
        rule=message.rule.name if message.rule else "",
        subject=f"[crawlctl] {message.subject}",
        text=f"{message.subject}\n\n{message.text}",
        link=absolute(message.link),
        at=message.at,
        since=message.since,
    )
    return deliver(message, letter, is_last=context.is_last_retry)


def deliver(message: NotificationMessage, letter: Letter, *, is_last: bool) -> str:
    """
    Send a letter through the channel of its message, and record the attempt; return the answer of the receiver.

    Raises:
        NotSent: the receiver did not accept the message.
    """
    channel = message.channel
    mine = NotificationMessage.objects.filter(pk=message.pk)
    theirs = NotificationChannel.objects.filter(pk=channel.pk)
    try:
        answer = storable(find(channel.kind).deliver(channel.configuration, letter))[:LONGEST_ANSWER]
    except NotSent as error:
        said = storable(str(error))[:LONGEST_ANSWER]
        state = State.FAILED if is_last else State.WAITING
        mine.update(state=state, attempts=F("attempts") + 1, answer=said)
        theirs.update(last_failed_at=read_clock(), last_error=said)
        raise
    now = read_clock()
    mine.update(state=State.SENT, attempts=F("attempts") + 1, answer=answer, sent_at=now)
    theirs.update(last_sent_at=now, last_error="")
    return answer
