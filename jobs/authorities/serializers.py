"""The forms of authorities in the API: their fields, and how answers are shown."""

from typing import Any, Final

from rest_framework import serializers

from jobs.api.fields import HIGHEST_ID, ConfigurationField
from jobs.api.serializers import StrictModelSerializer
from jobs.authorities.contract import tokens_shown
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection, ServiceToken
from jobs.authorities.service.plan import Answer
from jobs.connectors.authority.kind import Status
from nodes.api.lifetimes import DaysField
from nodes.api.strict import StrictSerializer

_ANSWERS: Final = [str(one) for one in Status]
_CONNECTION: Final = ("id", "name", "kind", "configuration", "time_limit", "at_once", "silent_since", "last_error")
_SET_BY_CRAWLCTL: Final = ("silent_since", "last_error")


class AuthorityGroupSerializer(StrictModelSerializer):
    """A group of authorities, whose tokens belong together."""

    name = serializers.CharField(max_length=200)

    class Meta:
        model = AuthorityGroup
        fields = ("id", "name")


class _ConnectionSerializer(StrictModelSerializer):
    """The common part of both kinds of connections."""

    name = serializers.CharField(max_length=200)
    kind = serializers.SlugField(max_length=50)
    configuration = ConfigurationField(
        default=dict,
        help_text="Fields of its kind (docs/authorities.md). A secret is shown as `(secret)`, which leaves it as it is.",
    )
    time_limit = serializers.IntegerField(
        min_value=1, max_value=120, default=5, help_text="Time limit of a question (seconds)."
    )
    at_once = serializers.IntegerField(
        min_value=1, max_value=100, default=4, help_text="Maximum number of simultaneous questions."
    )
    prerequisite = serializers.IntegerField(
        source="prerequisite_id",
        min_value=1,
        max_value=HIGHEST_ID,
        allow_null=True,
        default=None,
        help_text="Mapping that translates the names of users first. If null, the names stay as they are.",
    )


class AuthoritySerializer(_ConnectionSerializer):
    """A connection to an authority. `silent_since` is null if it answered its last question."""

    group = serializers.IntegerField(
        source="group_id", min_value=1, max_value=HIGHEST_ID, help_text="ID of the authority group of its tokens."
    )
    domain = serializers.CharField(
        max_length=200,
        default="",
        allow_blank=True,
        help_text="Domain of users. If set, the authority is asked only about users of this domain.",
    )

    class Meta:
        model = AuthorityConnection
        fields = (*_CONNECTION, "group", "prerequisite", "domain")
        read_only_fields = _SET_BY_CRAWLCTL


class MappingSerializer(_ConnectionSerializer):
    """A connection to a mapper. `silent_since` is null if it answered its last question."""

    class Meta:
        model = MappingConnection
        fields = (*_CONNECTION, "prerequisite")
        read_only_fields = _SET_BY_CRAWLCTL


class CheckedSerializer(serializers.Serializer[Any]):
    """The result of a check: the reason why the connection cannot be used, or a remark, or nothing."""

    works = serializers.BooleanField()
    detail = serializers.CharField()


class ServiceTokenSerializer(serializers.ModelSerializer[ServiceToken]):
    """A token of a service, without its text."""

    class Meta:
        model = ServiceToken
        fields = ("id", "name", "created_at", "created_by", "expires_at")
        read_only_fields = fields


class NewServiceTokenSerializer(StrictSerializer):
    """Token to create."""

    name = serializers.CharField(max_length=200)
    days = DaysField()


class CreatedServiceTokenSerializer(ServiceTokenSerializer):
    """A new token of a service, with its text, which no other answer shows."""

    token = serializers.CharField(help_text="Text of the token, shown only in this answer.")

    class Meta(ServiceTokenSerializer.Meta):
        fields = (*ServiceTokenSerializer.Meta.fields, "token")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class StateSerializer(serializers.Serializer[Any]):
    """State of a connection to an authority or a mapper: whether it answers questions."""

    name = serializers.CharField()
    is_mapping = serializers.BooleanField()
    group = serializers.CharField(help_text="Empty for a mapping.")
    silent_since = serializers.DateTimeField(
        allow_null=True, help_text="Moment since which questions are not answered. Null if the last one was."
    )


class AnswerSerializer(serializers.Serializer[Any]):
    """The answer of one authority."""

    authority = serializers.CharField()
    group = serializers.CharField()
    domain = serializers.CharField()
    user = serializers.CharField(allow_null=True, help_text="Mapped name. Null if a mapping has none for the user.")
    status = serializers.ChoiceField(_ANSWERS)
    tokens = serializers.ListField(
        child=serializers.CharField(),
        help_text="Tokens of the group. The deny token if the status is not `authorized`.",
    )
    why = serializers.CharField(help_text="Reason of the status, if there is one to tell.")
    seconds = serializers.FloatField(help_text="Time until the answer.")
    is_kept = serializers.BooleanField(help_text="True if the answer was in the cache.")


class AccessSerializer(serializers.Serializer[Any]):
    """The answers of all authorities to a question about one user in one or several domains."""

    users = serializers.DictField(child=serializers.CharField(), help_text="Users by domain.")
    answers = AnswerSerializer(many=True)


def access_shown(answers: list[Answer]) -> list[dict[str, Any]]:
    """Return the answers as the API and the pages show them."""
    return [
        {
            "authority": answer.authority.name,
            "group": answer.authority.group,
            "domain": answer.authority.domain,
            "user": answer.user,
            "status": str(answer.access.status),
            "tokens": list(tokens_shown(answer)),
            "why": answer.access.why,
            "seconds": round(answer.seconds, 6),
            "is_kept": answer.is_kept,
        }
        for answer in answers
    ]


def states() -> list[dict[str, Any]]:
    """Return the state of each connection, in the order of their names, authorities first."""
    authorities = AuthorityConnection.objects.select_related("group")
    return [
        {"name": one.name, "is_mapping": False, "group": one.group.name, "silent_since": one.silent_since}
        for one in authorities
    ] + [
        {"name": one.name, "is_mapping": True, "group": "", "silent_since": one.silent_since}
        for one in MappingConnection.objects.all()
    ]
