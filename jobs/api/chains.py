"""Chains of jobs: a job starts after another job has ended well."""

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.fields import HIGHEST_ID
from jobs.lifecycle.job import Overlap
from jobs.models import JobChain
from jobs.verbs import chains
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import PageQuery, StrictSerializer, read_body

_OVERLAPS = [overlap.value for overlap in Overlap]


class NewChainSerializer(StrictSerializer):
    """Chain to create, or to change: there is at most one for a pair of jobs."""

    predecessor = serializers.IntegerField(
        min_value=1, max_value=HIGHEST_ID, help_text="Job whose end starts the other one."
    )
    successor = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, help_text="Job that is started.")
    overlap = serializers.ChoiceField(
        _OVERLAPS,
        default=Overlap.SKIP.value,
        help_text="If the successor runs: `skip` the start, `queue` one start after that run, or `replace` the run: abort it, then start.",
    )


class ChainSerializer(serializers.ModelSerializer[JobChain]):
    """Chain: a job (`successor`) that starts after another job (`predecessor`) has ended well."""

    class Meta:
        model = JobChain
        fields = ("id", "predecessor", "successor", "overlap", "created_at", "created_by")
        read_only_fields = fields


class ChainQuery(PageQuery):
    """Parameters of the list of chains."""

    predecessor = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    successor = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    ordering = serializers.ChoiceField(["id", "-id"], default="id", help_text="`-id`: newest first.")


@extend_schema_view(
    list=extend_schema(description="List the chains of jobs."),
    retrieve=extend_schema(description="Return one chain."),
)
class ChainView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "jobs.view_job",
        "retrieve": "jobs.view_job",
        "create": chains.MAY_CHAIN,
        "destroy": chains.MAY_CHAIN,
    }
    serializer_class = ChainSerializer
    query_class = ChainQuery
    tagged_by = ChainSerializer
    tagged_fields = ("predecessor", "successor", "overlap")
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[JobChain]:
        return JobChain.objects.all()

    @extend_schema(
        description="Create a chain. If there is one of these two jobs, change its overlap. Jobs cannot form a circle.",
        request=NewChainSerializer,
        responses={201: ChainSerializer},
    )
    def create(self, request: Request) -> Response:
        wanted: dict[str, Any] = read_body(NewChainSerializer, request)
        chain = chains.add(**wanted, made_by=request.user.get_username())
        at = reverse("api:job-chain-detail", args=[chain.pk])
        return created(ChainSerializer(chain).data, at=at, request=request)

    @extend_schema(description="Remove a chain. Starts of its successor that still wait are dropped.")
    def destroy(self, request: Request, pk: str) -> Response:
        chains.remove(int(pk), made_by=request.user.get_username())
        return Response(status=status.HTTP_204_NO_CONTENT)
