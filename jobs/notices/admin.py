"""Notifications on the set-up pages: channels, rules and messages, with the actions of operators."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobs.notices import verbs
from jobs.notices.models import NotificationChannel, NotificationMessage, NotificationRule
from nodes.admin.lists import BoundedList

_HOUR = 60


class ReadOnlyList(BoundedList):
    """A read-only list. The pages of notifications change the rows."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_use_permission(self, request: HttpRequest) -> bool:
        """True for users who may test and mute."""
        return request.user.has_perm(verbs.MAY_USE)


class ChannelAdmin(ReadOnlyList):
    """The list of channels, without their secrets."""

    list_display = ("name", "kind", "is_enabled", "muted_until", "last_sent_at", "last_error")
    fields = ("name", "kind", "shown", "retry_policy", "most_an_hour", "is_enabled", "muted_until", "last_error")
    readonly_fields = ("shown",)
    search_fields = ("name",)
    actions = ("send_test", "mute", "end_muting")

    @admin.display(description=_("configuration"))
    def shown(self, channel: NotificationChannel) -> str:
        return str(verbs.shown_configuration(channel))

    @admin.action(description=_("Send a test message"), permissions=["use"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[NotificationChannel]) -> None:
        for channel in queryset:
            verbs.send_test_message(channel.pk, made_by=request.user.get_username())
        messages.success(request, _("Tasks send the test messages."))

    @admin.action(description=_("Mute for an hour"), permissions=["use"])
    def mute(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for channel in queryset:
            verbs.mute_channel(channel.pk, minutes=_HOUR, made_by=request.user.get_username())

    @admin.action(description=_("End the muting"), permissions=["use"])
    def end_muting(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for channel in queryset:
            verbs.mute_channel(channel.pk, minutes=0, made_by=request.user.get_username())


class RuleAdmin(ReadOnlyList):
    """The list of rules."""

    list_display = ("name", "job", "minutes", "remind_after", "is_enabled", "muted_until")
    fields = (
        "name",
        "topics",
        "job",
        "channels",
        "minutes",
        "remind_after",
        "notifies_of_end",
        "is_enabled",
        "muted_until",
    )
    list_select_related = ("job",)
    search_fields = ("name",)
    actions = ("mute", "end_muting")

    @admin.action(description=_("Mute for an hour"), permissions=["use"])
    def mute(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for rule in queryset:
            verbs.mute_rule(rule.pk, minutes=_HOUR, made_by=request.user.get_username())

    @admin.action(description=_("End the muting"), permissions=["use"])
    def end_muting(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for rule in queryset:
            verbs.mute_rule(rule.pk, minutes=0, made_by=request.user.get_username())


class MessageAdmin(ReadOnlyList):
    """The log of messages."""

    list_display = ("at", "channel", "subject", "state", "answer")
    list_filter = ("state", "about")
    list_select_related = ("channel",)
    sortable_by = ()


OF_MODELS = {NotificationChannel: ChannelAdmin, NotificationRule: RuleAdmin, NotificationMessage: MessageAdmin}
