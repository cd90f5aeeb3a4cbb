"""Explanations in the API."""

import datetime as dt
import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.fields import HIGHEST_ID
from jobs.explain import words
from jobs.explain.actions import action_of
from jobs.explain.all_partitions import explain_everywhere
from jobs.explain.explaining import Section
from jobs.explain.gates import Gate, Judgement, Reason, Status
from jobs.explain.link_paths import Step
from jobs.verbs import documents
from jobs.verdicts.causes import Cause
from nodes.api.base import ContractView
from nodes.api.strict import StrictSerializer, read_body, read_query
from nodes.database.clock import read_clock

_REASONS = [*map(str, Reason), *map(str, Cause)]


class ExplainQuery(StrictSerializer):
    url = serializers.CharField(max_length=10_000, help_text="Address to explain, in any form.")
    job = serializers.IntegerField(
        min_value=1,
        max_value=HIGHEST_ID,
        required=False,
        help_text="Only this job, even if it does not know the address.",
    )


class ActionSerializer(serializers.Serializer[Any]):
    """Operation that opens a blocked gate, with its page and the permission that it needs."""

    text = serializers.CharField(source="label", help_text="Label of the button or link.")
    page = serializers.CharField(source="address", help_text="Page of the operation.")
    operation = serializers.CharField(help_text="Path of the operation in the API. Empty if there is none.")
    permission = serializers.CharField(help_text="Permission that it needs.")


class GateSerializer(serializers.Serializer[Any]):
    """Gate between the address and an output: its status, and the reason for it."""

    gate = serializers.ChoiceField([*Gate])
    subject = serializers.CharField(help_text="Name of the output. Empty for other gates.")
    status = serializers.ChoiceField([*Status], help_text="No gate behind the first blocked one is reached.")
    reason = serializers.ChoiceField(_REASONS, help_text="Stable code of the reason.")
    sentence = serializers.CharField()
    remedy = serializers.CharField(help_text="Step that would open the gate. Empty if none is needed or possible.")
    facts = serializers.DictField(child=serializers.CharField(), help_text="Values that the sentence names.")
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    action = ActionSerializer(allow_null=True)


class StepSerializer(serializers.Serializer[Any]):
    """Document on the way from a seed, or one that links to the document."""

    id = serializers.CharField()
    url = serializers.CharField(source="identifier")


class ExplainedJobSerializer(serializers.Serializer[Any]):
    """One job of an explanation, with the gates that the address passes in this job."""

    job = serializers.IntegerField(source="job.pk")
    name = serializers.CharField(source="job.name")
    document = serializers.CharField(allow_null=True, help_text="Id of the document. Null in a forecast.")
    is_forecast = serializers.BooleanField(help_text="True if the job does not know the address.")
    sentences = serializers.ListField(child=serializers.CharField(), help_text="The answer in short.")
    blocked_by = serializers.CharField(
        allow_null=True, help_text="`gate` of the first blocked gate. Null if no gate blocks."
    )
    gates = GateSerializer(many=True)
    path = StepSerializer(
        many=True, help_text="Documents on the way from the seed to this document, which is left out."
    )
    linked_from = StepSerializer(many=True, help_text="Some documents that link to it.")


class ExplainedSerializer(serializers.Serializer[Any]):
    """Explanation of an address."""

    url = serializers.CharField(help_text="The address in its normal form.")
    is_known = serializers.BooleanField(help_text="True if a job knows it. Otherwise the jobs are forecasts.")
    partition = serializers.CharField(
        help_text="Name of the partition that has the address, and explains it. Empty if it is the partition that answers."
    )
    silent = serializers.ListField(
        child=serializers.CharField(), help_text="Partitions that may know the address and did not answer."
    )
    gates = GateSerializer(many=True, help_text="Gates of the address if no job follows it. Otherwise empty.")
    jobs = ExplainedJobSerializer(many=True)
    more_jobs = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Further jobs that know the address. Add `job` to explain it for one of them.",
    )


class DocumentMeantSerializer(StrictSerializer):
    """Request to change one document."""

    document = serializers.RegexField(
        r"^[0-9]{1,18}-[0-9a-f]{32}$", max_length=51, help_text="Id of the document, as the explanation shows it."
    )


class DocumentChangedSerializer(serializers.Serializer[Any]):
    """Document that the operation has changed."""

    url = serializers.CharField(source="identifier")
    job = serializers.IntegerField(source="job_id")
    partition = serializers.CharField(
        help_text="Name of the partition that has it. Empty if it is the partition that answers."
    )


class _DocumentChangeView(ContractView):
    """Base class of the views that change one document."""

    http_method_names = ["post", "options"]

    def _meant(self, request: Request) -> tuple[int, uuid.UUID]:
        job, _, digest = read_body(DocumentMeantSerializer, request)["document"].partition("-")
        return int(job), uuid.UUID(hex=digest)


class FetchAgainView(_DocumentChangeView):
    permissions_needed = {"post": documents.MAY_FETCH}

    @extend_schema(
        operation_id="explain_fetch_again",
        description="Make a document of the present run due immediately. It is read without conditions, and written again.",
        request=DocumentMeantSerializer,
        responses={200: DocumentChangedSerializer},
    )
    def post(self, request: Request) -> Response:
        job, document = self._meant(request)
        made_by = request.user.get_username()
        item = documents.fetch_again(job, document=document, made_by=made_by, now=read_clock())
        return Response(DocumentChangedSerializer(item).data)


class ForgetView(_DocumentChangeView):
    permissions_needed = {"post": documents.MAY_FORGET}

    @extend_schema(
        operation_id="explain_forget",
        description="Remove a document that no output holds from the queue. A page that links to it makes it known again.",
        request=DocumentMeantSerializer,
        responses={200: DocumentChangedSerializer},
    )
    def post(self, request: Request) -> Response:
        job, document = self._meant(request)
        item = documents.forget(job, document=document, made_by=request.user.get_username(), now=read_clock())
        return Response(DocumentChangedSerializer(item).data)


class ExplainView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_queueitem"}

    @extend_schema(
        operation_id="explain",
        description="Explain one address: all gates of the crawl in order, in each job that knows it.",
        parameters=[ExplainQuery],
        responses={200: ExplainedSerializer},
    )
    def get(self, request: Request) -> Response:
        query = read_query(ExplainQuery, request)
        now = read_clock()
        answer = explain_everywhere(query["url"], job_id=query.get("job"), now=now)
        found = answer.found
        shown = {
            "url": found.address.identifier,
            "is_known": found.is_known,
            "partition": answer.partition,
            "silent": [one.name for one in answer.silent],
            "gates": [_gate(None, gate, now=now) for gate in found.gates],
            "jobs": [_job(section, now=now) for section in found.sections],
            "more_jobs": list(found.more),
        }
        return Response(ExplainedSerializer(shown).data)


def _job(section: Section, *, now: dt.datetime) -> dict[str, Any]:
    deciding = section.deciding
    return {
        "job": section.job,
        "document": f"{section.job.pk}-{section.item.hash.hex}" if section.item is not None else None,
        "is_forecast": section.is_forecast,
        "sentences": words.headline(section, now=now),
        "blocked_by": deciding.gate if deciding is not None else None,
        "gates": [_gate(section, gate, now=now) for gate in section.gates],
        "path": [_step(section, step) for step in section.way],
        "linked_from": [_step(section, step) for step in section.referrers],
    }


def _step(section: Section, step: Step) -> dict[str, str]:
    return {"id": f"{section.job.pk}-{step.hash.hex}", "identifier": step.identifier}


def _gate(section: Section | None, gate: Judgement, *, now: dt.datetime) -> dict[str, Any]:
    return {
        "gate": gate.gate,
        "subject": gate.subject,
        "status": gate.status,
        "reason": gate.reason,
        "sentence": words.sentence(gate, host=section.host if section is not None else None, now=now),
        "remedy": words.remedy(gate),
        "facts": gate.facts,
        "since": gate.since,
        "until": gate.until,
        "action": action_of(section, gate) if section is not None else None,
    }
