"""The settings of the cluster: the stored ones, the effective ones of each node, and their change."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.queries.settings_page import NodeSettings, SettingLine, SettingsPage, read_settings_page
from jobs.settings.table import TABLE
from nodes.api.base import ContractView
from nodes.api.paging import ListingView
from nodes.api.strict import Nothing, StrictSerializer, read_query
from nodes.models import SettingsVersion
from nodes.settings import versions


class SettingsQuery(StrictSerializer):
    based_on = serializers.IntegerField(
        min_value=0,
        required=False,
        help_text="Version on which the new settings are based. The answer is 409 if a newer one is stored.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="True to return the changes without storing them.")


class SettingSerializer(serializers.Serializer[SettingLine]):
    """Setting of the cluster, with those running nodes whose value differs."""

    path = serializers.CharField(source="setting.path")
    meaning = serializers.CharField(source="setting.meaning")
    environment = serializers.CharField(
        source="setting.environment", help_text="Environment variable that overrides the setting."
    )
    allowed = serializers.CharField(source="setting.kind.allowed")
    applies = serializers.CharField(
        source="setting.applies", help_text="Moment at which a new value takes effect on running nodes."
    )
    value = serializers.JSONField(help_text="Effective value of a node without its own value.")
    source = serializers.CharField(help_text="`stored` or `default`.")  # type: ignore[assignment]
    apart = serializers.ListField(child=serializers.UUIDField(), help_text="Running nodes with another value.")

    def to_representation(self, instance: SettingLine) -> dict[str, Any]:
        setting = instance.setting
        return {
            "path": setting.path,
            "meaning": setting.meaning,
            "environment": setting.environment,
            "allowed": setting.kind.allowed,
            "applies": str(setting.applies),
            "value": instance.value,
            "source": str(instance.source),
            "apart": [str(node.id) for node in instance.apart],
        }


class NodeSettingsSerializer(serializers.Serializer[NodeSettings]):
    """Settings of a running node, as it reported them."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField()
    version = serializers.IntegerField(help_text="Version of the stored settings that the node applies.")
    values = serializers.DictField(help_text="Values by path.")
    sources = serializers.DictField(child=serializers.CharField(), help_text="Source of each value, by path.")
    waiting = serializers.DictField(help_text="Values that take effect at the node's next start, by path.")


class ChangeSerializer(serializers.Serializer[Any]):
    """Setting that differs between two versions."""

    path = serializers.CharField()
    before = serializers.JSONField(allow_null=True, help_text="Null if no version is stored.")
    after = serializers.JSONField(allow_null=True)
    applies = serializers.CharField()

    def to_representation(self, instance: versions.Change) -> dict[str, Any]:
        setting = instance.setting
        return {
            "path": setting.path,
            "before": None if instance.before is None else setting.as_json(instance.before),
            "after": None if instance.after is None else setting.as_json(instance.after),
            "applies": str(setting.applies),
        }


class SettingsSerializer(serializers.Serializer[SettingsPage]):
    version = serializers.IntegerField(help_text="Number of the stored version. 0 if none is stored.")
    document = serializers.DictField(help_text="Settings JSON: sections of settings by name.")
    settings = SettingSerializer(many=True, source="lines")
    nodes = NodeSettingsSerializer(many=True)


class SettingsGivenSerializer(StrictSerializer):
    """The answer to GET, with a changed document."""

    ignored = frozenset({"changes"})

    version = serializers.IntegerField(read_only=True)
    document = serializers.JSONField()
    settings = SettingSerializer(many=True, source="lines", read_only=True)
    nodes = NodeSettingsSerializer(many=True, read_only=True)


class SettingsStoredSerializer(SettingsSerializer):
    changes = ChangeSerializer(many=True)


class VersionSerializer(serializers.ModelSerializer[SettingsVersion]):
    class Meta:
        model = SettingsVersion
        fields = ("version", "document", "made_by", "at")
        read_only_fields = fields


class SettingsView(ContractView):
    """The settings of the cluster. Their ETag is the number of their version."""

    permissions_needed = {"get": "nodes.view_settingsversion", "put": "nodes.add_settingsversion"}

    @extend_schema(
        operation_id="settings_retrieve",
        description="Return the stored settings and the effective values of each running node.",
        responses=SettingsSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return Response(SettingsSerializer(read_settings_page()).data)

    def tag_of_shown(self, shown: Mapping[str, Any]) -> str | None:
        return f'"{shown["version"]}"' if "version" in shown else None

    def lock_and_read_tag(self) -> str | None:
        return f'"{versions.lock_newest()}"'

    @extend_schema(
        operation_id="settings_update",
        description=(
            "Store the whole settings JSON. Missing settings get their defaults. The body is this JSON, or the body of GET with a "
            "changed `document`."
        ),
        request=dict[str, dict[str, Any]],
        parameters=[SettingsQuery],
        responses=SettingsStoredSerializer,
    )
    def put(self, request: Request) -> Response:
        query = read_query(SettingsQuery, request)
        document, version = _read_body(request.data)
        if query["dry_run"]:
            changed = versions.preview(TABLE, document)
        else:
            based_on = query.get("based_on", version)
            changed = versions.store(TABLE, document, made_by=request.user.get_username(), based_on=based_on)
        shown = SettingsSerializer(read_settings_page()).data
        return Response({**shown, "changes": ChangeSerializer(changed, many=True).data})


def _read_body(body: object) -> tuple[object, int | None]:
    """
    Return the settings JSON of a body, and the version on which it is based; None if the body does not name one.

    The body is the settings JSON, or the answer of GET with a changed `document`.

    Raises:
        ValidationError: a member of the body other than `document` differs from the present answer of GET.
    """
    if not isinstance(body, Mapping) or "document" not in body:
        return body, None
    given = SettingsGivenSerializer(read_settings_page(), data=body)
    given.is_valid(raise_exception=True)
    return given.validated_data["document"], body.get("version")


@extend_schema_view(
    list=extend_schema(description="List the stored versions, newest first."),
    retrieve=extend_schema(description="Return one version."),
)
class SettingsVersionView(RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "nodes.view_settingsversion", "retrieve": "nodes.view_settingsversion"}
    queryset = SettingsVersion.objects.all()
    serializer_class = VersionSerializer
    keyset = ("-version",)
    lookup_value_regex = "[0-9]{1,9}"
