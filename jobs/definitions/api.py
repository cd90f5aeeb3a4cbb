"""Definitions in the API: jobs, connections and policies by name, as JSON or YAML."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Final

from django.core import signing
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import parsers, renderers, serializers, status
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.utils.urls import replace_query_param

from jobs.definitions import importing
from jobs.definitions.listing import read_page
from jobs.definitions.reading import Definition, read_whole, without_secrets
from jobs.definitions.subjects import SUBJECTS, Subject
from jobs.definitions.texts import BadText, as_yaml, read_yaml
from nodes.api.base import ContractView
from nodes.api.etags import tag_of
from nodes.api.paging import page_response, refuse_cursor
from nodes.api.parsing import JSONParser, read_bounded
from nodes.api.strict import PageQuery, StrictSerializer, read_query
from nodes.errors import Invalid
from nodes.membership.changes import Differences

_YAML: Final = "application/yaml"
_SALT: Final = "cursor of definitions"
_RESULTS: Final = "results"
_LONGEST_NAME: Final = 400


class YamlRenderer(renderers.BaseRenderer):
    """Renders answers as YAML, and problems as JSON, which their media type names."""

    media_type = _YAML
    format = "yaml"
    charset = "utf-8"

    def render(
        self, data: object, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        response = (renderer_context or {}).get("response")
        if response is not None and response.status_code >= status.HTTP_400_BAD_REQUEST:
            return renderers.JSONRenderer().render(data)
        return as_yaml(json.loads(json.dumps(data, cls=JSONEncoder))).encode()


class YamlParser(parsers.BaseParser):
    """Reads a body of YAML: one document, or several, which are a list."""

    media_type = _YAML

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:  # noqa: ANN401 (the framework expects data of forms)
        try:
            documents = read_yaml(read_bounded(stream, parser_context))
        except BadText as bad:
            raise ParseError(str(bad).replace("It ", "The body ", 1)) from None
        return documents[0] if len(documents) == 1 else documents


class DefinitionQuery(PageQuery):
    """The parameters of a list of definitions."""

    definition = serializers.ChoiceField(
        list(SUBJECTS), required=False, help_text="Kind of the objects. Without it, all kinds that the user may see."
    )
    name = serializers.CharField(max_length=_LONGEST_NAME, required=False, help_text="Exact name of the object.")


class ImportQuery(StrictSerializer):
    dry_run = serializers.BooleanField(default=False, help_text="True to return the changes without storing them.")


class ChangedFieldSerializer(serializers.Serializer[Any]):
    """Field that differs, without secrets. A long list shows only the items that differ."""

    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ImportedSerializer(serializers.Serializer[Any]):
    """Effect of the import of one definition on its object."""

    definition = serializers.CharField()
    name = serializers.CharField()
    result = serializers.CharField(help_text="`created`, `changed` or `unchanged`.")
    fields = ChangedFieldSerializer(many=True)  # type: ignore[assignment]  # DRF takes declared fields out of the class
    warnings = serializers.ListField(child=serializers.CharField())


class ImportedDefinitionsSerializer(serializers.Serializer[Any]):
    """Effects of an import, in the order of the body."""

    dry_run = serializers.BooleanField()
    changes = ImportedSerializer(many=True)


_DEFINITION: Final = PolymorphicProxySerializer(
    component_name="Definition",
    serializers={name: subject.serializer for name, subject in SUBJECTS.items()},
    resource_type_field_name="definition",
    many=False,
)


class DefinitionPageSerializer(serializers.Serializer[Any]):
    """Page of definitions. An import accepts this body, too."""

    results = serializers.ListField(child=serializers.DictField(), help_text="Definitions.")
    next = serializers.URLField(allow_null=True, help_text="Address of the next page. Null on the last page.")


class DefinitionView(ContractView):
    """Definitions. The ETag of an import covers the objects that its body names."""

    renderer_classes = (renderers.JSONRenderer, YamlRenderer)
    parser_classes = (JSONParser, YamlParser)
    # Each object needs the permission of its kind, too.
    permissions_needed = {"get": "jobs.view_job", "put": "jobs.change_job"}

    @extend_schema(
        operation_id="definitions_list",
        description=(
            "List definitions: policies, repositories, outputs and jobs with names instead of ids, by name. Secrets are left out. "
            "Fields with their defaults are left out, too."
        ),
        parameters=[DefinitionQuery],
        responses={
            (200, "application/json"): DefinitionPageSerializer,
            (200, _YAML): DefinitionPageSerializer,
        },
    )
    def get(self, request: Request) -> Response:
        query = read_query(DefinitionQuery, request)
        subjects = [SUBJECTS[query["definition"]]] if "definition" in query else list(SUBJECTS.values())
        allowed = [subject for subject in subjects if self._may(subject.permission("view"))]
        if not allowed:
            self.permission_denied(request)
        after = _read_cursor(query["cursor"]) if "cursor" in query else None
        page = read_page(allowed, name=query.get("name"), limit=query["limit"], after=after)
        following = None
        if page.has_more:
            subject, last = page.rows[-1]
            cursor = signing.dumps([subject.name, last.name], salt=_SALT)
            following = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        wholes = [(subject, row, read_whole(subject, row, with_defaults=False)) for subject, row in page.rows]
        answer = page_response([without_secrets(*whole) for whole in wholes], next_page=following)
        answer.headers["ETag"] = _tag_of(whole for _, _, whole in wholes)
        return answer

    @extend_schema(
        operation_id="definitions_import",
        description=(
            "Create or change the objects of one definition or of a list, all or none. Objects that are not named stay. "
            "The body may be an answer of GET."
        ),
        parameters=[ImportQuery],
        request={
            "application/json": _DEFINITION,
            _YAML: _DEFINITION,
        },
        responses={
            (200, "application/json"): ImportedDefinitionsSerializer,
            (200, _YAML): ImportedDefinitionsSerializer,
        },
    )
    def put(self, request: Request) -> Response:
        query = read_query(ImportQuery, request)
        given = _given(request.data)
        try:
            changes = importing.import_definitions(
                given, may=self._may, made_by=request.user.get_username(), dry_run=query["dry_run"]
            )
        except importing.Refused as refused:
            raise Invalid(_by_field(refused)) from None
        shown = [as_json(change) for change in changes]
        tag = _tag_of_names([(SUBJECTS[one.definition], one.name) for one in changes])
        return Response({"dry_run": query["dry_run"], "changes": shown}, headers={"ETag": tag})

    def lock_and_read_tag(self) -> str | None:
        named = list(filter(None, (importing.identify(one.body) for one in _given(self.request.data))))
        importing.lock(named)
        return _tag_of_names(named)

    def _may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))


def _given(body: Any) -> list[importing.Given]:  # noqa: ANN401 (any JSON)
    """Return the definitions of a body: one, a list, or those of a page."""
    items = importing.items_of(body)
    if items is None:
        return [importing.Given("", body)]
    before = "" if isinstance(body, list) else f"{_RESULTS}."
    return [importing.Given(f"{before}{place}", one) for place, one in enumerate(items)]


def _by_field(refused: importing.Refused) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for problem in refused.problems:
        where = ".".join(filter(None, (problem.place, problem.field))) or "request"
        found.setdefault(where, []).extend(problem.sentences)
    return found


def as_json(change: importing.Change) -> dict[str, Any]:
    """Return the effect of one definition, as the API shows it."""
    return {
        "definition": change.definition,
        "name": change.name,
        "result": str(change.result),
        "fields": fields_as_json(change.fields),
        "warnings": list(change.warnings),
    }


def fields_as_json(differences: Differences) -> list[dict[str, Any]]:
    """Return the fields that differ, as the API shows them."""
    return [{"field": name, **pair} for name, pair in differences.items()]


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        subject, name = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature:
        raise refuse_cursor() from None
    return subject, name


def _tag_of(wholes: Iterable[Definition]) -> str:
    return tag_of(sorted(wholes, key=lambda whole: (whole["definition"], whole["name"])))


def _tag_of_names(named: Sequence[tuple[Subject, str]]) -> str:
    """Return the ETag of the present definitions of these objects."""
    wholes = []
    for subject in SUBJECTS.values():
        rows = subject.rows().filter(name__in=[name for other, name in named if other is subject])
        wholes += [read_whole(subject, row, with_defaults=False) for row in rows]
    return _tag_of(wholes)
