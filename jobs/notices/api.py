"""Notification channels, rules and messages in the REST API."""

from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.fields import HIGHEST_ID
from jobs.notices import mailings, verbs
from jobs.notices.channels.registry import KINDS
from jobs.notices.models import MOST_AN_HOUR, NotificationChannel, NotificationMessage, NotificationRule, ReportMailing
from jobs.notices.topics import TOPICS
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, Nothing, PageQuery, StrictSerializer, read_body
from nodes.tasks.models import TaskTemplate

_ID: Final = "[0-9]{1,18}"
_OF_KIND: Final = "Its fields (docs/notifications.md). A secret is shown as `(secret)`, which leaves it as it is."


class ChannelPartsSerializer(StrictSerializer):
    """The fields of a channel that a request can set."""

    name = serializers.CharField(max_length=200)
    configuration = serializers.JSONField(help_text=_OF_KIND)
    retry_policy = serializers.JSONField(
        required=False, help_text="Retry policy of its messages (docs/tasks.md). Default: 6 retries from 30 s on."
    )
    most_an_hour = serializers.IntegerField(
        min_value=1,
        max_value=1000,
        default=MOST_AN_HOUR,
        help_text="Maximum number of messages in an hour. A summary lists the others.",
    )
    is_enabled = serializers.BooleanField(default=True)


class NewChannelSerializer(ChannelPartsSerializer):
    """Channel to create."""

    kind = serializers.ChoiceField(list(KINDS))


class ChannelSerializer(serializers.ModelSerializer[NotificationChannel]):
    """Channel: a configured way to people or programs, such as e-mail or a webhook."""

    configuration = serializers.SerializerMethodField(help_text=_OF_KIND)

    class Meta:
        model = NotificationChannel
        fields = (
            *("id", "name", "kind", "configuration", "retry_policy", "most_an_hour", "is_enabled", "muted_until"),
            *("created_at", "created_by", "last_sent_at", "last_failed_at", "last_error"),
        )
        read_only_fields = fields

    @extend_schema_field({"type": "object", "additionalProperties": True})
    def get_configuration(self, channel: NotificationChannel) -> dict[str, Any]:
        return verbs.shown_configuration(channel)


class RulePartsSerializer(StrictSerializer):
    """The fields of a rule that a request can set."""

    name = serializers.CharField(max_length=200)
    topics = serializers.ListField(
        child=serializers.ChoiceField(list(TOPICS)),
        max_length=len(TOPICS),
        default=list,
        help_text="Topics of the rule. If the list is empty, the rule sends all lines of the attention list.",
    )
    job = serializers.IntegerField(
        min_value=1,
        max_value=HIGHEST_ID,
        allow_null=True,
        default=None,
        help_text="ID of the only job of the rule. If null, all jobs.",
    )
    channels = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=HIGHEST_ID), max_length=100, default=list
    )
    minutes = serializers.IntegerField(
        min_value=1,
        max_value=verbs.MOST_MINUTES,
        allow_null=True,
        default=None,
        help_text="Minutes after which the topics `no_documents` and `runs_long` become conditions.",
    )
    remind_after = serializers.IntegerField(
        min_value=1,
        max_value=verbs.MOST_MINUTES,
        allow_null=True,
        default=None,
        help_text="Minutes between reminders. If null, none are sent.",
    )
    notifies_of_end = serializers.BooleanField(
        default=True, help_text="True to send a message at the end of a condition, too."
    )
    is_enabled = serializers.BooleanField(default=True)


class NotificationRuleSerializer(serializers.ModelSerializer[NotificationRule]):
    """Rule: the topics that become messages of the named channels."""

    class Meta:
        model = NotificationRule
        fields = (
            *("id", "name", "topics", "job", "channels", "minutes", "remind_after", "notifies_of_end", "is_enabled"),
            *("muted_until", "created_at", "created_by"),
        )
        read_only_fields = fields


class MessageSerializer(serializers.ModelSerializer[NotificationMessage]):
    """Message that was sent, failed or was suppressed, from the log of notifications."""

    class Meta:
        model = NotificationMessage
        fields = (
            *("id", "channel", "rule", "about", "topic", "subject", "text", "link", "since", "at", "state", "task"),
            *("attempts", "sent_at", "answer"),
        )
        read_only_fields = fields


class MuteSerializer(StrictSerializer):
    """Request to mute a channel or a rule for some minutes."""

    minutes = serializers.IntegerField(
        min_value=0, max_value=verbs.MOST_MINUTES, help_text="Minutes without messages. 0 ends the muting."
    )


class NameQuery(PageQuery):
    """Parameters of the list of channels, and of the list of rules."""

    name = serializers.CharField(max_length=200, required=False)
    ordering = serializers.ChoiceField(["id", "-id"], default="id", help_text="`-id`: newest first.")


class MessageQuery(NewestQuery):
    """Parameters of the list of messages."""

    channel = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, source="channel_id", required=False)
    rule = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, source="rule_id", required=False)
    state = serializers.ChoiceField(NotificationMessage.State.values, required=False)


@extend_schema_view(
    list=extend_schema(description="List the notification channels."),
    retrieve=extend_schema(description="Return one notification channel, without its secrets."),
)
class ChannelView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "patch", "delete"]
    permissions_needed = {
        "list": "notices.view_notificationchannel",
        "retrieve": "notices.view_notificationchannel",
        "create": "notices.add_notificationchannel",
        "partial_update": "notices.change_notificationchannel",
        "destroy": "notices.delete_notificationchannel",
        "test": verbs.MAY_USE,
        "mute": verbs.MAY_USE,
    }
    serializer_class = ChannelSerializer
    tagged_by = ChannelSerializer
    tagged_fields = ("name", "configuration", "retry_policy", "most_an_hour", "is_enabled")
    query_class = NameQuery
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[NotificationChannel]:
        return NotificationChannel.objects.all()

    @extend_schema(
        description="Create a channel. Its secrets are sealed.",
        request=NewChannelSerializer,
        responses={201: ChannelSerializer},
    )
    def create(self, request: Request) -> Response:
        channel = verbs.create_channel(**read_body(NewChannelSerializer, request), made_by=_name(request))
        at = reverse("api:notification-channel-detail", args=[channel.pk])
        return created(ChannelSerializer(channel).data, at=at, request=request)

    @extend_schema(
        description="Change parts of a channel. A configuration replaces the whole one.",
        request=ChannelPartsSerializer(partial=True),
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        wanted = ChannelPartsSerializer(data=request.data, partial=True)
        wanted.is_valid(raise_exception=True)
        return Response(
            ChannelSerializer(verbs.change_channel(int(pk), **wanted.validated_data, made_by=_name(request))).data
        )

    @extend_schema(description="Delete a channel with its messages.")
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.delete_channel(int(pk), made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        operation_id="notification_channels_test",
        description="Send a test message. A task sends it after this request.",
        request=Nothing,
        responses={202: MessageSerializer},
    )
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        message = verbs.send_test_message(int(pk), made_by=_name(request))
        return Response(MessageSerializer(message).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="notification_channels_mute",
        description="Suppress the messages of a channel for a time. A summary follows it.",
        request=MuteSerializer,
    )
    @action(detail=True, methods=["post"])
    def mute(self, request: Request, pk: str) -> Response:
        muted = verbs.mute_channel(int(pk), **read_body(MuteSerializer, request), made_by=_name(request))
        return Response(ChannelSerializer(muted).data)


@extend_schema_view(
    list=extend_schema(description="List the rules of notifications."),
    retrieve=extend_schema(description="Return one rule of notifications."),
)
class RuleView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "patch", "delete"]
    permissions_needed = {
        "list": "notices.view_notificationrule",
        "retrieve": "notices.view_notificationrule",
        "create": "notices.add_notificationrule",
        "partial_update": "notices.change_notificationrule",
        "destroy": "notices.delete_notificationrule",
        "mute": verbs.MAY_USE,
    }
    serializer_class = NotificationRuleSerializer
    tagged_by = NotificationRuleSerializer
    tagged_fields = ("name", "topics", "job", "channels", "minutes", "remind_after", "notifies_of_end", "is_enabled")
    query_class = NameQuery
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[NotificationRule]:
        return NotificationRule.objects.prefetch_related("channels")

    @extend_schema(
        description="Create a rule.",
        request=RulePartsSerializer,
        responses={201: NotificationRuleSerializer},
    )
    def create(self, request: Request) -> Response:
        rule = verbs.create_rule(**read_body(RulePartsSerializer, request), made_by=_name(request))
        at = reverse("api:notification-rule-detail", args=[rule.pk])
        return created(NotificationRuleSerializer(rule).data, at=at, request=request)

    @extend_schema(description="Change parts of a rule.", request=RulePartsSerializer(partial=True))
    def partial_update(self, request: Request, pk: str) -> Response:
        wanted = RulePartsSerializer(data=request.data, partial=True)
        wanted.is_valid(raise_exception=True)
        rule = verbs.change_rule(int(pk), **wanted.validated_data, made_by=_name(request))
        return Response(NotificationRuleSerializer(rule).data)

    @extend_schema(description="Delete a rule with its conditions.")
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.delete_rule(int(pk), made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        operation_id="notification_rules_mute",
        description="Send no messages of a rule for a time.",
        request=MuteSerializer,
    )
    @action(detail=True, methods=["post"])
    def mute(self, request: Request, pk: str) -> Response:
        rule = verbs.mute_rule(int(pk), **read_body(MuteSerializer, request), made_by=_name(request))
        return Response(NotificationRuleSerializer(rule).data)


@extend_schema_view(
    list=extend_schema(description="List the messages of notifications, newest first."),
    retrieve=extend_schema(description="Return one message of a notification channel."),
)
class MessageView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {
        "list": "notices.view_notificationmessage",
        "retrieve": "notices.view_notificationmessage",
    }
    queryset = NotificationMessage.objects.all()
    serializer_class = MessageSerializer
    query_class = MessageQuery
    keyset = ("-id",)
    lookup_value_regex = _ID


class NewMailingSerializer(StrictSerializer):
    """Mailing to create, or to update: its name is unique."""

    name = serializers.CharField(max_length=64)
    report = serializers.ChoiceField(list(mailings.REPORTS))
    filter = serializers.JSONField(
        default=dict, help_text="Parameters of the report, as in its address, without the interval."
    )
    hours = serializers.IntegerField(
        min_value=1, default=24, help_text="Length of the interval before the moment of sending (hours)."
    )
    channel = serializers.IntegerField(
        min_value=1, max_value=HIGHEST_ID, help_text="ID of a channel of the kind `email`."
    )
    recipients = serializers.ListField(
        child=serializers.CharField(max_length=320),
        max_length=100,
        default=list,
        help_text="Addresses of recipients. If empty, the recipients of the channel.",
    )
    as_html = serializers.BooleanField(default=True, help_text="True to send HTML beside the text.")
    attaches_csv = serializers.BooleanField(
        default=True, help_text="True to attach the rows as a CSV file, at most 10,000 rows."
    )
    schedule = serializers.JSONField(
        help_text='Schedule, such as `{"cron": "0 7 * * 1", "time_zone": "Europe/Berlin"}` (docs/tasks.md).'
    )


class MailingSerializer(serializers.ModelSerializer[ReportMailing]):
    """A scheduled report by e-mail."""

    schedule = serializers.SerializerMethodField()

    class Meta:
        model = ReportMailing
        fields = (
            *("id", "name", "report", "filter", "hours", "channel", "recipients", "as_html", "attaches_csv"),
            *("schedule", "created_at", "created_by"),
        )
        read_only_fields = fields

    @extend_schema_field({"type": "object", "additionalProperties": True, "nullable": True})
    def get_schedule(self, mailing: ReportMailing) -> Any:  # noqa: ANN401 (JSON)
        return TaskTemplate.objects.filter(urn=mailing.template_urn).values_list("schedule", flat=True).first()


@extend_schema_view(
    list=extend_schema(description="List the scheduled reports by e-mail."),
    retrieve=extend_schema(description="Return one scheduled report."),
)
class MailingView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "notices.view_reportmailing",
        "retrieve": "notices.view_reportmailing",
        "create": "notices.change_reportmailing",
        "destroy": "notices.delete_reportmailing",
    }
    queryset = ReportMailing.objects.all()
    serializer_class = MailingSerializer
    tagged_by = MailingSerializer
    tagged_fields = ("name", "report", "filter", "hours", "channel", "recipients", "schedule")
    lookup_value_regex = _ID

    @extend_schema(
        description="Create a scheduled report, or update the one of this name.",
        request=NewMailingSerializer,
        responses={201: MailingSerializer},
    )
    def create(self, request: Request) -> Response:
        mailing = mailings.put_mailing(**read_body(NewMailingSerializer, request), made_by=_name(request))
        at = reverse("api:report-mailing-detail", args=[mailing.pk])
        return created(MailingSerializer(mailing).data, at=at, request=request)

    @extend_schema(description="Remove a scheduled report with its template of tasks.")
    def destroy(self, request: Request, pk: str) -> Response:
        mailings.remove_mailing(self.get_object().name, made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _name(request: Request) -> str:
    return str(request.user.get_username())
