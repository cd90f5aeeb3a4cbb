"""The pages of notifications: conditions, channels, rules, scheduled reports, and messages."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.notices import verbs
from jobs.notices.channels.registry import KINDS
from jobs.notices.models import (
    NotificationChannel,
    NotificationCondition,
    NotificationMessage,
    NotificationRule,
    ReportMailing,
)
from jobs.notices.pages.forms import ChannelForm, RuleForm, add_problems
from jobs.notices.topics import TOPICS
from jobs.partitions import this_partition
from nodes.database.clock import read_clock
from nodes.errors import InUse, Invalid
from nodes.tasks.models import TaskTemplate
from nodes.tasks.pages.screens import schedule_in_words
from nodes.web import formats
from nodes.web.pages import page_for, user_with_permission

_page: Final = page_for("notices.view_notificationrule")
# Number of minutes for which the button mutes a channel or a rule.
_MUTED: Final = 60
_SHOWN: Final = 50
_TONES: Final = {"sent": "indexed", "failed": "failed", "waiting": "waiting"}
_FORM: Final = ["GET", "HEAD", "POST"]


@_page
@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    log = NotificationMessage.objects.select_related("channel", "rule")
    standing = NotificationCondition.objects.filter(ended_at=None).select_related("rule").order_by("-id")
    conditions = list(standing[: _SHOWN + 1])
    stated = this_partition.placement()
    context = {
        # The name of the control partition, which sends the messages about conditions of this partition; "" in the
        # control partition, and without partitions.
        "control": stated.control if stated is not None and not stated.is_control else "",
        "kinds": [{"name": kind.name, "label": kind.label} for kind in KINDS.values()],
        "channels": [_channel_row(channel, now=now) for channel in NotificationChannel.objects.all()],
        "rules": [_rule_row(rule, now=now) for rule in NotificationRule.objects.prefetch_related("channels", "job")],
        "conditions": [_condition_row(condition, now=now) for condition in conditions[:_SHOWN]],
        "more_conditions": _("Only the newest %(n)s are shown.") % {"n": formats.number(_SHOWN)}
        if len(conditions) > _SHOWN
        else "",
        "mailings": [_mailing_row(mailing) for mailing in ReportMailing.objects.select_related("channel")],
        "log": [_message_row(message, now=now) for message in log[:_SHOWN]],
    }
    return render(request, "notices/notifications.html", context)


@_page
@require_http_methods(_FORM)
def new_channel(request: HttpRequest, kind: str) -> HttpResponse:
    made_by = user_with_permission(request, "notices.add_notificationchannel")
    found = KINDS.get(kind)
    if found is None:
        raise Http404(_("This kind of channel does not exist."))
    form = ChannelForm(found, data=request.POST or None)

    def store() -> str:
        return verbs.create_channel(kind=kind, **form.facts(), made_by=made_by).name

    if _store(request, form, store):
        return redirect("notifications")
    title = _("New channel: %(kind)s") % {"kind": found.label}
    return render(request, "notices/form.html", {"form": form, "title": title})


@_page
@require_http_methods(_FORM)
def channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    made_by = user_with_permission(request, "notices.change_notificationchannel")
    stored = get_object_or_404(NotificationChannel, pk=channel_id)
    found = KINDS.get(stored.kind)
    if found is None:
        raise Http404(_("This kind of channel does not exist."))
    form = ChannelForm(found, stored=stored, data=request.POST or None)

    def store() -> str:
        return verbs.change_channel(channel_id, **form.facts(), made_by=made_by).name

    if _store(request, form, store):
        return redirect("notifications")
    return render(request, "notices/form.html", {"form": form, "title": stored.name})


@_page
@require_http_methods(_FORM)
def new_rule(request: HttpRequest) -> HttpResponse:
    made_by = user_with_permission(request, "notices.add_notificationrule")
    form = RuleForm(data=request.POST or None)

    def store() -> str:
        return verbs.create_rule(**form.facts(), made_by=made_by).name

    if _store(request, form, store):
        return redirect("notifications")
    return render(request, "notices/form.html", {"form": form, "title": _("New rule")})


@_page
@require_http_methods(_FORM)
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    made_by = user_with_permission(request, "notices.change_notificationrule")
    stored = get_object_or_404(NotificationRule, pk=rule_id)
    form = RuleForm(stored=stored, data=request.POST or None)

    def store() -> str:
        return verbs.change_rule(rule_id, **form.facts(), made_by=made_by).name

    if _store(request, form, store):
        return redirect("notifications")
    return render(request, "notices/form.html", {"form": form, "title": stored.name})


@_page
@require_POST
def act_on_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Test, mute or delete a channel."""
    if "delete" in request.POST:
        made_by = user_with_permission(request, "notices.delete_notificationchannel")
        try:
            verbs.delete_channel(channel_id, made_by=made_by)
        except InUse as used:
            messages.warning(request, str(used))
        else:
            messages.success(request, _("The channel was deleted."))
    elif "test" in request.POST:
        made_by = user_with_permission(request, verbs.MAY_USE)
        verbs.send_test_message(channel_id, made_by=made_by)
        messages.success(request, _("A task sends the test message. Reload the page to see its result."))
    else:
        made_by = user_with_permission(request, verbs.MAY_USE)
        minutes = 0 if "unmute" in request.POST else _MUTED
        verbs.mute_channel(channel_id, minutes=minutes, made_by=made_by)
    return redirect("notifications")


@_page
@require_POST
def act_on_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Mute or delete a rule."""
    if "delete" in request.POST:
        made_by = user_with_permission(request, "notices.delete_notificationrule")
        verbs.delete_rule(rule_id, made_by=made_by)
        messages.success(request, _("The rule was deleted."))
    else:
        made_by = user_with_permission(request, verbs.MAY_USE)
        minutes = 0 if "unmute" in request.POST else _MUTED
        verbs.mute_rule(rule_id, minutes=minutes, made_by=made_by)
    return redirect("notifications")


def _store(request: HttpRequest, form: ChannelForm | RuleForm, store: Callable[[], str]) -> bool:
    """Store a valid form that was sent; return True if it was stored."""
    if request.method != "POST" or not form.is_valid():
        return False
    try:
        name = store()
    except Invalid as invalid:
        add_problems(form, invalid.problems)
        return False
    messages.success(request, _("%(name)s was stored.") % {"name": name})
    return True


def _channel_row(channel: NotificationChannel, *, now: dt.datetime) -> dict[str, Any]:
    found = KINDS.get(channel.kind)
    return {
        "id": channel.pk,
        "name": channel.name,
        "kind": found.label if found else channel.kind,
        "is_enabled": channel.is_enabled,
        "muted": _muted(channel, now=now),
        "sent": formats.moment(channel.last_sent_at, now=now),
        "error": channel.last_error,
        "most": channel.most_an_hour,
    }


def _rule_row(rule: NotificationRule, *, now: dt.datetime) -> dict[str, Any]:
    topics = [str(TOPICS.get(topic, topic)) for topic in rule.topics]
    return {
        "id": rule.pk,
        "name": rule.name,
        "topics": ", ".join(topics) or _("all lines of the attention list"),
        "job": rule.job.name if rule.job else "",
        "channels": ", ".join(channel.name for channel in rule.channels.all()) or _("none"),
        "is_enabled": rule.is_enabled,
        "muted": _muted(rule, now=now),
    }


def _condition_row(condition: NotificationCondition, *, now: dt.datetime) -> dict[str, Any]:
    return {
        "id": condition.pk,
        "title": TOPICS.get(condition.topic, condition.topic),
        "subject": condition.subject,
        "sentence": condition.sentence,
        "link": condition.link,
        "rule": condition.rule.name,
        "found": formats.moment(condition.found_at, now=now),
    }


def _mailing_row(mailing: ReportMailing) -> dict[str, Any]:
    template = TaskTemplate.objects.filter(urn=mailing.template_urn).first()
    return {
        "id": mailing.pk,
        "name": mailing.name,
        "report": mailing.report,
        "recipients": ", ".join(mailing.recipients or mailing.channel.configuration.get("recipients", ())),
        "schedule": schedule_in_words(template) if template else _("none"),
        "next": f"{template.next_at:%Y-%m-%d %H:%M}" if template and template.next_at else formats.UNKNOWN,
    }


def _message_row(message: NotificationMessage, *, now: dt.datetime) -> dict[str, Any]:
    return {
        "id": message.pk,
        "at": formats.moment(message.at, now=now),
        "channel": message.channel.name,
        "subject": message.subject,
        "state": message.get_state_display(),
        "tone": _TONES.get(message.state, "quiet"),
        "answer": message.answer,
    }


def _muted(thing: NotificationChannel | NotificationRule, *, now: dt.datetime) -> str:
    if thing.muted_until is None or thing.muted_until <= now:
        return ""
    return _("muted until %(until)s") % {"until": formats.moment(thing.muted_until, now=now)}
