"""
All operations on channels and rules. Pages, the API, commands and the set-up pages call these functions.

Administrators change channels and rules, and operators test and mute them. Secrets are encrypted, and no function
returns them.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from django.db import transaction

from jobs.connectors.stored_secrets import why_not_kept
from jobs.models import Job
from jobs.notices import checking
from jobs.notices.channels.registry import KINDS, ChannelKind
from jobs.notices.models import MOST_AN_HOUR, NotificationChannel, NotificationMessage, NotificationRule
from jobs.notices.topics import LIMITS, TOPICS
from nodes.database.clock import read_clock
from nodes.errors import InUse, Invalid, NameTaken, Unknown
from nodes.membership.changes import MASK, record_change, record_request
from nodes.tasks.kinds import find
from nodes.tasks.retrying import read_policy

MAY_USE: Final = "notices.use_notification"
# Longest time for which a channel or a rule is muted, and longest limits of a rule (minutes).
MOST_MINUTES: Final = 366 * 24 * 60
_MOST_NAME: Final = 200
_OF_CHANNEL: Final = ("name", "kind", "configuration", "retry_policy", "most_an_hour", "is_enabled")
_OF_RULE: Final = ("name", "topics", "job_id", "minutes", "remind_after", "notifies_of_end", "is_enabled")

_T = TypeVar("_T", NotificationChannel, NotificationRule)


# --- Channels ----------------------------------------------------------------------------------------


@transaction.atomic
def create_channel(
    *,
    name: object,
    kind: object,
    configuration: object,
    retry_policy: object = None,
    most_an_hour: object = MOST_AN_HOUR,
    is_enabled: bool = True,
    made_by: str,
) -> NotificationChannel:
    """
    Store a new channel.

    Raises:
        Invalid: a part is invalid, or the name is taken.
    """
    found = KINDS.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise Invalid({"kind": [f"Write one of {', '.join(KINDS)}."]})
    channel = NotificationChannel(kind=found.name, created_by=made_by, is_enabled=is_enabled)
    policy = dict(find("send_notice").retry_policy) if retry_policy is None else retry_policy
    _fill_channel(
        channel, name=name, configuration=configuration, retry_policy=policy, most_an_hour=most_an_hour, found=found
    )
    channel.save()
    channel.refresh_from_db()
    _journal(channel, before={}, after=_facts(channel, _OF_CHANNEL), made_by=made_by)
    return channel


@transaction.atomic
def change_channel(channel_id: int, *, made_by: str, **changes: object) -> NotificationChannel:
    """
    Change the named parts of a channel. Its kind never changes, and a masked secret stays as it is.

    Raises:
        Invalid: a part is invalid, or the name is taken.
        Unknown: the channel does not exist.
    """
    channel = _lock(NotificationChannel, "channel", channel_id)
    before = _facts(channel, _OF_CHANNEL)
    if changes.pop("kind", channel.kind) != channel.kind:
        raise Invalid({"kind": ["The kind of a channel never changes. Create another channel."]})
    found = KINDS.get(channel.kind)
    if found is None:
        raise Invalid({"kind": [f"There is no kind of channel {channel.kind}. Delete the channel."]})
    values: dict[str, Any] = {
        name: getattr(channel, name) for name in ("name", "configuration", "retry_policy", "most_an_hour")
    }
    channel.is_enabled = bool(changes.pop("is_enabled", channel.is_enabled))
    _fill_channel(channel, **{**values, **changes}, found=found)
    channel.save()
    _journal(channel, before=before, after=_facts(channel, _OF_CHANNEL), made_by=made_by)
    return channel


@transaction.atomic
def delete_channel(channel_id: int, *, made_by: str) -> None:
    """
    Delete a channel with its messages. Rules no longer use the channel.

    Raises:
        InUse: a report mailing uses it.
        Unknown: the channel does not exist.
    """
    channel = _lock(NotificationChannel, "channel", channel_id)
    users = list(channel.mailings.order_by("name").values_list("name", flat=True))
    if users:
        raise InUse(f"{channel.name} cannot be deleted while these report mailings use it: {', '.join(users)}.")
    _journal(channel, before=_facts(channel, _OF_CHANNEL), after={}, made_by=made_by)
    channel.delete()


@transaction.atomic
def send_test_message(channel_id: int, *, made_by: str) -> NotificationMessage:
    """
    Send a test message, also if the channel is muted, disabled, or at its limit; return the message.

    Raises:
        Unknown: the channel does not exist.
    """
    channel = _lock(NotificationChannel, "channel", channel_id)
    now = read_clock()
    record_request(f"{made_by} tested the notification channel {channel.name}", made_by=made_by)
    return checking.post(
        channel,
        about=NotificationMessage.About.TEST,
        subject=f"Test of the channel {channel.name}",
        text=f"{made_by} sent this message to test the channel. Nothing needs your attention.",
        now=now,
        is_limited=False,
    )


def mute_channel(channel_id: int, *, minutes: object, made_by: str) -> NotificationChannel:
    """
    Suppress the messages of a channel for a time, and return the channel. A time of 0 ends the suppression.

    Raises:
        Invalid: the time is invalid.
        Unknown: the channel does not exist.
    """
    return _mute(NotificationChannel, "channel", channel_id, minutes=minutes, made_by=made_by)


# --- Rules -------------------------------------------------------------------------------------------


@transaction.atomic
def create_rule(*, made_by: str, **facts: object) -> NotificationRule:
    """
    Store a new rule.

    Raises:
        Invalid: a part is invalid, or the name is taken.
    """
    rule = NotificationRule(created_by=made_by)
    channels = _fill_rule(rule, {"name": "", "channels": [], **facts})
    rule.save()
    rule.channels.set(channels)
    rule.refresh_from_db()
    _journal(rule, before={}, after=_facts_of_rule(rule), made_by=made_by)
    return rule


@transaction.atomic
def change_rule(rule_id: int, *, made_by: str, **changes: object) -> NotificationRule:
    """
    Change the named parts of a rule.

    Raises:
        Invalid: a part is invalid, or the name is taken.
        Unknown: the rule does not exist.
    """
    rule = _lock(NotificationRule, "rule", rule_id)
    before = _facts_of_rule(rule)
    channels = _fill_rule(rule, {"channels": list(rule.channels.values_list("pk", flat=True)), **changes})
    rule.save()
    rule.channels.set(channels)
    _journal(rule, before=before, after=_facts_of_rule(rule), made_by=made_by)
    return rule


@transaction.atomic
def delete_rule(rule_id: int, *, made_by: str) -> None:
    """
    Delete a rule with its conditions.

    Raises:
        Unknown: the rule does not exist.
    """
    rule = _lock(NotificationRule, "rule", rule_id)
    _journal(rule, before=_facts_of_rule(rule), after={}, made_by=made_by)
    rule.delete()


def mute_rule(rule_id: int, *, minutes: object, made_by: str) -> NotificationRule:
    """
    Suppress the messages of a rule for a time, and return the rule. A time of 0 ends the suppression.

    Raises:
        Invalid: the time is invalid.
        Unknown: the rule does not exist.
    """
    return _mute(NotificationRule, "rule", rule_id, minutes=minutes, made_by=made_by)


# --- What is shown -----------------------------------------------------------------------------------


def shown_configuration(channel: NotificationChannel) -> dict[str, Any]:
    """Return the configuration of a channel with masks in place of its secrets."""
    kind = KINDS.get(channel.kind)
    secrets = kind.secrets if kind else frozenset(channel.configuration)
    return {name: MASK if name in secrets else value for name, value in channel.configuration.items()}


# --- Checks ------------------------------------------------------------------------------------------


def _fill_channel(
    channel: NotificationChannel,
    *,
    name: object,
    configuration: object,
    retry_policy: object,
    most_an_hour: object,
    found: ChannelKind,
) -> None:
    problems = _problems_of_name(NotificationChannel, "channel", name, but=channel.pk)
    if isinstance(configuration, Mapping):
        kept = {
            field: channel.configuration[field]
            for field in found.secrets
            if configuration.get(field) == MASK and field in channel.configuration
        }
        for field in kept:
            why = why_not_kept([field], given=configuration, stored=channel.configuration, schema=found.schema)
            problems |= {f"configuration.{field}": [why]} if why else {}
        configuration = {**configuration, **kept}
        masked = [field for field in found.secrets if configuration.get(field) == MASK]
        problems |= {f"configuration.{field}": ["Write the secret, not its mask."] for field in masked}
    for field, said in found.problems(configuration).items():
        problems.setdefault(f"configuration.{field}" if field else "configuration", said)
    try:
        read_policy(retry_policy)
    except Invalid as invalid:
        for path, sentences in invalid.problems.items():
            problems[f"retry_policy.{path}" if path else "retry_policy"] = sentences
    if not _is_whole(most_an_hour, least=1, most=1000):
        problems["most_an_hour"] = ["Write a whole number from 1 to 1000."]
    if problems:
        raise Invalid(problems)
    assert isinstance(configuration, dict)
    channel.name, channel.retry_policy = str(name), retry_policy
    channel.configuration = found.schema.sealed(configuration)
    channel.most_an_hour = int(str(most_an_hour))


def _fill_rule(rule: NotificationRule, facts: Mapping[str, Any]) -> list[NotificationChannel]:
    """Set the given parts of a rule; return its channels."""
    wanted = {name: facts[name] for name in facts if name != "channels"}
    problems: dict[str, list[str]] = {}
    if "name" in wanted:
        problems |= _problems_of_name(NotificationRule, "rule", wanted["name"], but=rule.pk)
    topics = wanted.get("topics", rule.topics)
    if not isinstance(topics, list) or not all(topic in TOPICS for topic in topics):
        problems["topics"] = [f"Write a list of these: {', '.join(TOPICS)}."]
        topics = []
    for name in ("minutes", "remind_after"):
        value = wanted.get(name, getattr(rule, name))
        if value is not None and not _is_whole(value, least=1, most=MOST_MINUTES):
            problems[name] = [f"Write a whole number of minutes from 1 to {MOST_MINUTES}, or nothing."]
    if set(topics) & set(LIMITS) and wanted.get("minutes", rule.minutes) is None:
        problems["minutes"] = [f"The topics {', '.join(LIMITS)} need a limit in minutes."]
    job = wanted.pop("job", rule.job_id)
    if job is not None and not Job.objects.filter(pk=job).exists():
        problems["job"] = [f"Job {job} does not exist."]
    chosen = list(dict.fromkeys(facts["channels"]))
    channels = NotificationChannel.objects.in_bulk(chosen)
    missing = [str(one) for one in chosen if one not in channels]
    if missing:
        problems["channels"] = [f"These channels do not exist: {', '.join(missing)}."]
    if problems:
        raise Invalid(problems)
    wanted |= {"topics": list(dict.fromkeys(topics)), "job_id": job}
    for name, value in wanted.items():
        setattr(rule, name, value)
    return list(channels.values())


def _problems_of_name(model: type[_T], noun: str, name: object, *, but: int | None) -> dict[str, list[str]]:
    if not isinstance(name, str) or not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        return {"name": [f"A name has 1 to {_MOST_NAME} printable characters, not only blanks."]}
    if model._default_manager.filter(name=name).exclude(pk=but or 0).exists():  # noqa: SLF001 (Django's own word)
        raise NameTaken(noun, name)
    return {}


@transaction.atomic
def _mute(model: type[_T], noun: str, key: int, *, minutes: object, made_by: str) -> _T:
    if not _is_whole(minutes, least=0, most=MOST_MINUTES):
        raise Invalid({"minutes": [f"Write a whole number of minutes from 0 to {MOST_MINUTES}."]})
    thing = _lock(model, noun, key)
    time = int(str(minutes))
    thing.muted_until = read_clock() + dt.timedelta(minutes=time) if time else None
    thing.save(update_fields=["muted_until"])
    said = f"muted {{}} for {time} minutes" if time else "ended the muting of {}"
    record_request(f"{made_by} {said.format(f'the notification {noun} {thing.name}')}", made_by=made_by)
    return thing


def _is_whole(value: object, *, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _lock(model: type[_T], noun: str, key: int) -> _T:
    thing = model._default_manager.select_for_update().filter(pk=key).first()  # noqa: SLF001 (Django's own word)
    if thing is None:
        raise Unknown(noun, key)
    return thing


def _facts(thing: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _facts_of_rule(rule: NotificationRule) -> dict[str, Any]:
    channels = rule.channels.order_by("name").values_list("name", flat=True)
    return {**_facts(rule, _OF_RULE), "channels": list(channels)}


def _journal(
    thing: NotificationChannel | NotificationRule, *, before: dict[str, Any], after: dict[str, Any], made_by: str
) -> None:
    noun = "channel" if isinstance(thing, NotificationChannel) else "rule"
    record_change(f"notification {noun} {thing.name}", before=before, after=after, made_by=made_by)
