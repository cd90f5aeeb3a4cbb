"""Versions of jobs, policies and connections in the API."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.fields import HIGHEST_ID
from jobs.definitions.api import ChangedFieldSerializer, ImportedSerializer, as_json, fields_as_json
from jobs.definitions.versions import verbs
from jobs.models import DefinitionVersion
from nodes.api.etags import tag_of
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, Nothing, read_body


class DefinitionVersionSerializer(serializers.ModelSerializer[DefinitionVersion]):
    """Version of the definition of an object."""

    object = serializers.IntegerField(source="object_id", help_text="Number of the object.")
    changes = serializers.SerializerMethodField(help_text="Fields that differ from the version before.")

    class Meta:
        model = DefinitionVersion
        fields = ("id", "definition", "object", "number", "name", "at", "made_by", "restores", "changes")
        read_only_fields = fields
        extra_kwargs = {
            "made_by": {"help_text": "Empty for the state before the first kept change."},
            "restores": {"help_text": "Number of the earlier version that a revert repeated. Null for other saves."},
        }

    @extend_schema_field(ChangedFieldSerializer(many=True))
    def get_changes(self, version: DefinitionVersion) -> list[dict[str, Any]]:
        return fields_as_json(version.changes)


class WholeDefinitionVersionSerializer(DefinitionVersionSerializer):
    """Version with its definition."""

    document = serializers.DictField(help_text="Definition, without secrets.")
    newest = serializers.IntegerField(help_text="Number of the newest version of the object.")
    exists = serializers.BooleanField(help_text="False if the object no longer exists.")
    differences = ChangedFieldSerializer(many=True, help_text="Fields that a revert to this version would change.")

    class Meta:
        model = DefinitionVersion
        fields = (*DefinitionVersionSerializer.Meta.fields, "document", "newest", "exists", "differences")
        read_only_fields = fields


class VersionQuery(NewestQuery):
    """Parameters of the list of versions."""

    definition = serializers.ChoiceField(DefinitionVersion.Subject.values, required=False, help_text="Kind of object.")
    object = serializers.IntegerField(
        source="object_id", min_value=1, max_value=HIGHEST_ID, required=False, help_text="Number of the object."
    )


@extend_schema_view(
    list=extend_schema(description="List versions of jobs, policies and connections, newest first."),
)
class VersionView(ListingView):
    """
    Versions of objects. The ETag of a version names the newest version of its object, so a revert with an old ETag is
    refused.
    """

    http_method_names = ["get", "head", "options", "post"]
    # Each object needs the permission of its kind, too.
    permissions_needed = {"list": "jobs.view_job", "retrieve": "jobs.view_job", "revert": "jobs.change_job"}
    lookup_value_regex = "[0-9]{1,18}"
    queryset = DefinitionVersion.objects.all()
    serializer_class = DefinitionVersionSerializer
    query_class = VersionQuery
    keyset = ("-id",)
    tagged_fields = ("newest",)

    def get_queryset(self) -> QuerySet[DefinitionVersion]:
        return verbs.visible(self._may)

    def lock_and_read_tag(self) -> str | None:
        if "pk" not in self.kwargs:
            return None
        return tag_of({"newest": verbs.lock(int(self.kwargs["pk"]), may=self._may)})

    def _may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))

    @extend_schema(
        description="Return a version with its definition, and the effect of a revert to it.",
        responses={200: WholeDefinitionVersionSerializer},
    )
    def retrieve(self, request: Request, pk: str) -> Response:
        seen = verbs.read_version(int(pk), may=self._may)
        shown = DefinitionVersionSerializer(seen.version).data
        return Response(
            {
                **shown,
                "document": seen.version.document,
                "newest": seen.newest,
                "exists": seen.exists,
                "differences": fields_as_json(seen.differences),
            }
        )

    @extend_schema(
        operation_id="versions_revert",
        description=(
            "Save the definition of this version as a new version, with the checks of each save. Secrets stay as they are. "
            "If it is the present definition, nothing is saved."
        ),
        request=Nothing,
        responses={200: ImportedSerializer},
    )
    @action(detail=True, methods=["post"])
    def revert(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        change = verbs.revert(int(pk), may=self._may, made_by=request.user.get_username())
        return Response(as_json(change))
