"""
Executes one check: compares the situation with the rules, and stores messages together with their tasks.

A check is one transaction. The transaction locks the row of the last check, so checks follow each other. If the worker
of a check dies, the whole check is repeated.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import QuerySet

from jobs.notices import texts
from jobs.notices.decisions import Changes, Occurrence, OpenCondition, compare, messages_left
from jobs.notices.models import (
    LONGEST_ANSWER,
    NotificationChannel,
    NotificationCheck,
    NotificationCondition,
    NotificationMessage,
    NotificationRule,
)
from jobs.notices.reading import Situation, first_check, occurrences_of, read_situation
from nodes.database.clock import read_clock
from nodes.database.shared_results import Moment
from nodes.tasks import verbs
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import find

About, State = NotificationMessage.About, NotificationMessage.State

# Time for which messages and ended conditions are kept.
_KEPT: Final = dt.timedelta(days=30)
_CHUNK: Final = 2_000
# Successful checks are kept for an hour only. Otherwise, they would fill the archive of tasks.
_FORGET_CHECKS: Final = """
DELETE FROM tasks_archivedtask
 WHERE id IN (SELECT id FROM tasks_archivedtask
               WHERE kind = 'check_notices' AND why = 'done' AND archived_at < clock_timestamp() - interval '1 hour'
               LIMIT 500)
"""
# Marks messages as failed that no attempt will send: their tasks were cancelled, or the last attempt was lost.
_END_UNSENT: Final = """
UPDATE notices_notificationmessage AS message
   SET state = 'failed',
       answer = coalesce((SELECT left(coalesce(nullif(ended.last_message, ''), 'The task of the message ended: ' || ended.why || '.'), %s)
                            FROM tasks_archivedtask AS ended WHERE ended.id = message.task),
                         'The task of the message no longer exists.')
 WHERE message.state = 'waiting' AND NOT EXISTS (SELECT FROM tasks_task AS task WHERE task.id = message.task)
"""


def check_notices(_context: TaskContext, _arguments: Mapping[str, Any]) -> dict[str, int]:
    """Compare the situation with all rules once; return the number of stored messages."""
    now = read_clock()
    with Moment().present(), transaction.atomic():
        stored = NotificationCheck.objects.select_for_update().filter(pk=1).first()
        check = stored or first_check(now)
        situation = read_situation(check, now=now)
        made = 0
        for rule in NotificationRule.objects.filter(is_enabled=True).prefetch_related("channels").order_by("pk"):
            made += _follow(rule, occurrences_of(rule, situation, check, now=now), situation, now=now)
        _end_conditions_of_disabled_rules(now=now)
        for channel in _channels():
            made += _sum_up(channel, now=now)
        check.checked_at = now
        check.save(force_insert=stored is None)
    _end_unsent()
    _forget(now=now)
    return {"messages": made}


def post(
    channel: NotificationChannel,
    *,
    about: str,
    subject: str,
    text: str,
    now: dt.datetime,
    rule: NotificationRule | None = None,
    seen: Occurrence | None = None,
    is_limited: bool = True,
) -> NotificationMessage:
    """Store a message and schedule its task; if the channel is muted or at its limit, store it as suppressed."""
    is_suppressed = is_limited and (_is_muted(channel, now=now) or not _room(channel, now=now))
    message = NotificationMessage.objects.create(
        channel=channel,
        rule=rule,
        about=about,
        topic=seen.topic if seen else "",
        subject=subject,
        text=text,
        link=seen.link if seen else "",
        since=seen.since if seen else None,
        at=now,
        state=State.SUPPRESSED if is_suppressed else State.WAITING,
    )
    if not is_suppressed:
        schedule(message, retry_policy=channel.retry_policy)
    return message


def schedule(message: NotificationMessage, *, retry_policy: Mapping[str, Any]) -> None:
    """Schedule the task that sends a message."""
    task = verbs.schedule(
        find("send_notice"), arguments={"message": message.pk}, retry_policy=retry_policy, made_by="notifications"
    )
    message.task = task.pk
    message.save(update_fields=["task"])


def _follow(rule: NotificationRule, seen: list[Occurrence], situation: Situation, *, now: dt.datetime) -> int:
    """Store the changes of a rule's conditions, and their messages; return the number of messages."""
    conditions = NotificationCondition.objects.filter(rule=rule, ended_at=None).select_for_update()
    keys = {(one.topic, one.key) for one in seen}
    known = {condition.pk: condition for condition in conditions if not situation.may_still_hold(condition, keys)}
    open_ = [
        OpenCondition(
            id=condition.pk,
            topic=condition.topic,
            key=condition.key,
            last_message_at=condition.last_message_at,
            missing_since=condition.missing_since,
        )
        for condition in known.values()
    ]
    remind_after = None if rule.remind_after is None else dt.timedelta(minutes=rule.remind_after)
    changes = compare(seen, open_, full=situation.full, remind_after=remind_after, now=now)
    return _store(rule, changes, known, now=now)


def _store(
    rule: NotificationRule, changes: Changes, known: Mapping[int, NotificationCondition], *, now: dt.datetime
) -> int:
    is_muted = rule.muted_until is not None and rule.muted_until > now
    rows = NotificationCondition.objects
    rows.filter(pk__in=changes.missing).update(missing_since=now)
    rows.filter(pk__in=changes.present).update(missing_since=None)
    made = 0
    for one in changes.new:
        rows.create(**_facts(rule, one), found_at=now, last_message_at=None if is_muted else now)
        made += _notify(rule, About.NEW, one, now=now, is_muted=is_muted)
    for one in changes.events:
        rows.create(**_facts(rule, one), found_at=now, last_message_at=now, ended_at=now)
        made += _notify(rule, About.EVENT, one, now=now, is_muted=is_muted)
    if not is_muted:
        # `unmuted` are conditions that began while the rule was muted.
        for about, pairs in ((About.NEW, changes.unmuted), (About.REMINDER, changes.reminders)):
            for condition, one in pairs:
                rows.filter(pk=condition).update(last_message_at=now)
                made += _notify(rule, about, one, now=now)
    for condition in changes.ended:
        row = known[condition]
        rows.filter(pk=condition).update(ended_at=now)
        # If no message reported the beginning of a condition, no message reports the end.
        if rule.notifies_of_end and row.last_message_at is not None:
            made += _notify(rule, About.ENDED, _seen(row), now=now, is_muted=is_muted)
    return made


def _notify(rule: NotificationRule, about: str, seen: Occurrence, *, now: dt.datetime, is_muted: bool = False) -> int:
    channels = [] if is_muted else [channel for channel in rule.channels.all() if channel.is_enabled]
    subject = texts.subject_of(about, seen.topic, seen.subject)
    text = texts.text_of(about, seen, now=now)
    for channel in channels:
        post(channel, about=about, subject=subject, text=text, now=now, rule=rule, seen=seen)
    return len(channels)


def _sum_up(channel: NotificationChannel, *, now: dt.datetime) -> int:
    """Send a summary of suppressed messages as soon as the limit of the channel permits a message again."""
    suppressed = NotificationMessage.objects.filter(channel=channel, state=State.SUPPRESSED)
    first = list(suppressed.order_by("id")[:_CHUNK])
    if not first or _is_muted(channel, now=now) or not _room(channel, now=now):
        return 0
    subject, text = texts.summary(first, number=suppressed.count())
    suppressed.update(state=State.SUMMED_UP)
    post(channel, about=About.SUMMARY, subject=subject, text=text, now=now)
    return 1


def _room(channel: NotificationChannel, *, now: dt.datetime) -> int:
    sent = NotificationMessage.objects.filter(channel=channel, at__gt=now - dt.timedelta(hours=1)).exclude(
        state__in=[State.SUPPRESSED, State.SUMMED_UP]
    )
    counted = sent.exclude(about__in=[About.TEST, About.REPORT]).values_list("at", flat=True)
    return messages_left(list(counted), most_an_hour=channel.most_an_hour, now=now)


def _is_muted(channel: NotificationChannel, *, now: dt.datetime) -> bool:
    return channel.muted_until is not None and channel.muted_until > now


def _channels() -> QuerySet[NotificationChannel]:
    return NotificationChannel.objects.filter(is_enabled=True)


def _end_conditions_of_disabled_rules(*, now: dt.datetime) -> None:
    NotificationCondition.objects.filter(rule__is_enabled=False, ended_at=None).update(ended_at=now)


def _end_unsent() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_END_UNSENT, [LONGEST_ANSWER])


def _forget(*, now: dt.datetime) -> None:
    for rows in (
        NotificationMessage.objects.filter(at__lt=now - _KEPT),
        NotificationCondition.objects.filter(ended_at__lt=now - _KEPT),
    ):
        _delete_some(rows)
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_CHECKS)


def _delete_some(rows: QuerySet[Any]) -> None:
    chosen: Iterable[int] = list(rows.order_by("id").values_list("pk", flat=True)[:_CHUNK])
    rows.filter(pk__in=chosen).delete()


def _facts(rule: NotificationRule, seen: Occurrence) -> dict[str, Any]:
    return {
        "rule": rule,
        "topic": seen.topic,
        "key": seen.key,
        "subject": seen.subject,
        "sentence": seen.sentence,
        "link": seen.link,
        "since": seen.since,
    }


def _seen(row: NotificationCondition) -> Occurrence:
    return Occurrence(
        topic=row.topic,
        key=row.key,
        subject=row.subject,
        sentence=row.sentence,
        link=row.link,
        since=row.since,
    )
