"""Suspects in the API, which may be traps: their list, the test of their rules, and the decisions of operators."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, PlacedSerializer
from jobs.api.fields import HIGHEST_ID
from jobs.models import RuleKind, TrapDecision, TrapSuspect
from jobs.queries.traps import check_rule, find_suspects
from jobs.verbs import traps
from jobs.verbs.trap_rules import Effect
from nodes.api.strict import Nothing, PageQuery, StrictSerializer, read_body, read_query
from nodes.database.clock import read_clock
from nodes.errors import Unknown

_DECISIONS = [decision.value for decision in TrapDecision]
_RULES = [kind.value for kind in RuleKind]


class TrapSuspectSerializer(PlacedSerializer, serializers.ModelSerializer[TrapSuspect]):
    """Group of addresses at a host with little new content. Each address counts only at its first fetch."""

    class Meta:
        model = TrapSuspect
        fields = (
            *("id", "job", "host", "template", "rule", "parameter", "suspected_at", "run_no"),
            *("fetched", "new", "bytes", "held", "samples", "new_samples", "proven"),
            *("decision", "decided_by", "decided_at", "accepted_as", "rule_state", "partition"),
        )
        read_only_fields = fields
        extra_kwargs = {
            "template": {"help_text": "The group: its addresses, with variable parts in braces or as stars."},
            "rule": {"help_text": "Exclude pattern that accepting would give to the job."},
            "parameter": {"help_text": "Parameter that links could lose instead. Empty if the group has none."},
            "run_no": {"help_text": "Last run that met the group."},
            "fetched": {"help_text": "Documents of the group that were fetched."},
            "new": {"help_text": "Fetched documents with new content."},
            "bytes": {"help_text": "Bytes that were read for them."},
            "held": {"help_text": "Documents that ended without a request. A document counts in each run."},
            "samples": {"help_text": "Some addresses without new content."},
            "new_samples": {"help_text": "Some addresses with new content."},
            "accepted_as": {"help_text": "Kind of the accepted rule: `exclude` or `drop_parameter`."},
            "rule_state": {
                "help_text": "`waits`: the job gets the rule when its run ends, `added`: it has the rule, `present`: it had "
                "the rule before, `leaves`: it loses the rule when its run ends."
            },
            "proven": {"help_text": "Templates of the host with new content, which are not held back."},
        }


class RuleTestSerializer(serializers.Serializer[Any]):
    """Effect of a rule on the documents of the host that outputs hold."""

    rule = serializers.CharField(help_text="The pattern, or the name of the parameter.")
    examined = serializers.IntegerField()
    matched = serializers.IntegerField(help_text="Documents that match the rule.")
    good = serializers.IntegerField(help_text="Matching documents outside of the group, or of a proven template.")
    examples = serializers.ListField(child=serializers.CharField(), help_text="Some of these.")
    is_whole = serializers.BooleanField(help_text="False if the host has more documents than one test reads.")


class TrapSuspectQuery(PageQuery):
    """Parameters of the list of suspects."""

    job = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    host = serializers.CharField(max_length=300, required=False)
    decision = serializers.ChoiceField(_DECISIONS, required=False)
    ordering = serializers.ChoiceField(["id", "-id"], default="-id", help_text="`-id`: newest first.")


class RuleQuery(StrictSerializer):
    rule = serializers.ChoiceField(_RULES, default=RuleKind.EXCLUDE.value, help_text="Kind of the rule to test.")


class AcceptedSerializer(StrictSerializer):
    """Request to accept a suspect: the kind of the rule that the job gets."""

    rule = serializers.ChoiceField(
        _RULES,
        default=RuleKind.EXCLUDE.value,
        help_text="`exclude`: refuse the addresses. `drop_parameter`: follow links without the parameter.",
    )
    confirm = serializers.BooleanField(default=False, help_text="Accept a rule that matches good pages, too.")


class ReleasedSerializer(serializers.Serializer[Any]):
    suspect = TrapSuspectSerializer()
    documents = serializers.IntegerField(source="sent.documents", help_text="Documents that are due again.")
    has_more = serializers.BooleanField(
        source="sent.has_more",
        help_text="True if more documents wait. Retry the documents with the result code TRAP to release them.",
    )


class UndoneSerializer(serializers.Serializer[Any]):
    suspect = TrapSuspectSerializer()
    effect = serializers.ChoiceField(
        [effect.value for effect in Effect],
        help_text="`suspected`: a release was undone. For an undone acceptance, `withdrawn`: the job had not received the rule yet, "
        "`removed`: the job lost the rule, `leaves`: it loses the rule when its run ends, `kept`: it had the rule before the acceptance, "
        "`missing`: it no longer had the rule.",
    )
    documents = serializers.IntegerField(help_text="Documents that are due again.")


@extend_schema_view(
    list=extend_schema(
        description="List suspects of traps. Those of other partitions follow, one partition after the other."
    )
)
class TrapSuspectView(EverywhereView):
    http_method_names = ["get", "head", "options", "post"]
    queried = ("list", "rule")
    permissions_needed = {
        "list": "jobs.view_job",
        "retrieve": "jobs.view_job",
        "rule": "jobs.view_job",
        "accept": traps.MAY_ACCEPT,
        "release": traps.MAY_RELEASE,
        "undo": traps.MAY_RELEASE,
    }
    serializer_class = TrapSuspectSerializer
    query_class = TrapSuspectQuery
    tagged_by = TrapSuspectSerializer
    tagged_fields = ("decision",)
    lookup_value_regex = "[0-9]{1,18}"
    keyset = ("-id",)

    def get_queryset(self) -> QuerySet[TrapSuspect]:
        return find_suspects()

    @extend_schema(description="Return one suspect.")
    def retrieve(self, _request: Request, pk: str) -> Response:
        return Response(TrapSuspectSerializer(self._find(pk)).data)

    @extend_schema(
        operation_id="trap_suspects_rule",
        description="Test the rule that accepting would make, against the documents of the host that outputs hold.",
        parameters=[RuleQuery],
        responses=RuleTestSerializer,
    )
    @action(detail=True, methods=["get"])
    def rule(self, request: Request, pk: str) -> Response:
        wanted = read_query(RuleQuery, request)
        return Response(RuleTestSerializer(check_rule(self._find(pk), **wanted)).data)

    @extend_schema(
        operation_id="trap_suspects_accept",
        description="Give the job the rule of the suspect. A job that runs gets it when the run ends.",
        request=AcceptedSerializer,
        responses=TrapSuspectSerializer,
    )
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: str) -> Response:
        wanted = read_body(AcceptedSerializer, request)
        suspect = traps.accept(int(pk), **wanted, made_by=request.user.get_username(), now=read_clock())
        return Response(TrapSuspectSerializer(suspect).data)

    @extend_schema(
        operation_id="trap_suspects_release",
        description="Release the suspect: it is not a trap. Documents that were held back are due again.",
        request=Nothing,
        responses=ReleasedSerializer,
    )
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        released = traps.release(int(pk), made_by=request.user.get_username(), now=read_clock())
        return Response(ReleasedSerializer(released).data)

    @extend_schema(
        operation_id="trap_suspects_undo",
        description="Undo the decision: the suspect is open again. Undoing an acceptance needs the role that accepts.",
        request=Nothing,
        responses=UndoneSerializer,
    )
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        user = request.user
        undone = traps.undo(int(pk), may=user.has_perm, made_by=user.get_username(), now=read_clock())
        return Response(UndoneSerializer(undone).data)

    def _find(self, pk: str) -> TrapSuspect:
        suspect = find_suspects().filter(pk=int(pk)).first()
        if suspect is None:
            raise Unknown("suspect", pk)
        return suspect
