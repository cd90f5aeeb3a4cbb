"""Read-only views of nodes and of their journal."""

from django.db.models import Exists, OuterRef
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import RetrieveModelMixin

from nodes.api.paging import ListingView
from nodes.api.serializers import NodeEventQuery, NodeEventSerializer, NodeQuery, NodeSerializer
from nodes.models import MainTerm, Node, NodeEvent


@extend_schema_view(
    list=extend_schema(description="List nodes, newest first, including ended ones."),
    retrieve=extend_schema(description="Return one node."),
)
class NodeView(RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "nodes.view_node", "retrieve": "nodes.view_node"}
    queryset = Node.objects.annotate(is_main=Exists(MainTerm.objects.filter(main=OuterRef("pk"), resigned=False)))
    serializer_class = NodeSerializer
    # A client can only drain a node, which changes its status.
    tagged_fields = ("status",)
    query_class = NodeQuery
    keyset = ("-started_at", "-id")
    lookup_value_regex = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@extend_schema_view(list=extend_schema(description="List the journal of nodes, newest first."))
class NodeEventView(ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "nodes.view_nodeevent"}
    queryset = NodeEvent.objects.all()
    serializer_class = NodeEventSerializer
    query_class = NodeEventQuery
    keyset = ("-id",)
