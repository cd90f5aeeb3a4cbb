"""The freshness goals of a job in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.queries.jobs.freshness import read_freshness_everywhere
from nodes.errors import Unknown


class GoalLineSerializer(serializers.Serializer[Any]):
    """A goal with the share that its job achieves. Figures are null until the main manager has measured them."""

    pattern = serializers.CharField(help_text="Pattern of the addresses.")
    share = serializers.FloatField(help_text="Share of the documents that must be fresh, from 0 to 1.")
    within = serializers.FloatField(help_text="Seconds after which an unseen change is too old.")
    documents = serializers.IntegerField(help_text="Documents that were read under the goal, estimated from a sample.")
    achieved = serializers.FloatField(allow_null=True, help_text="Share of the documents that is probably fresh now.")
    expected = serializers.FloatField(
        allow_null=True, help_text="Share of the documents that will be fresh with the planned requests."
    )
    needs = serializers.FloatField(allow_null=True, help_text="Requests per second that the goal needs.")
    gets = serializers.FloatField(allow_null=True, help_text="Requests per second that are planned.")
    is_met = serializers.BooleanField(allow_null=True, help_text="True if the goal is met now.")


class SlowHostSerializer(serializers.Serializer[Any]):
    """A host that is too slow for the goals of all jobs there."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    needs = serializers.FloatField(help_text="Requests per second that the goals need.")
    allows = serializers.FloatField(help_text="Requests per second that the limits of the host leave for the goals.")
    partition = serializers.CharField(
        help_text="Name of the partition that has the host. Empty if it is the partition that answers."
    )


class FreshnessSerializer(serializers.Serializer[Any]):
    """The freshness goals of a job in all partitions. `slow_hosts` are the 10 hosts that lack the most requests."""

    goals = GoalLineSerializer(many=True)
    slow_hosts = SlowHostSerializer(many=True)
    measured_at = serializers.DateTimeField(allow_null=True)
    silent = serializers.ListField(
        child=serializers.CharField(),
        help_text="Partitions that did not answer. Their documents are missing from all numbers.",
    )


class FreshJobs:
    """The part of the view of jobs that returns the freshness goals of a job."""

    @extend_schema(
        operation_id="jobs_freshness",
        description="Return the freshness goals of the job with the achieved shares, and hosts that are too slow for them.",
        responses=FreshnessSerializer,
    )
    @action(detail=True)
    def freshness(self, request: Request, pk: str) -> Response:
        found = read_freshness_everywhere(int(pk))
        if found is None:
            raise Unknown("job", int(pk))
        return Response(FreshnessSerializer(found).data)
