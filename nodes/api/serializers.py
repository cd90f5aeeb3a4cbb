"""Serializers of nodes and of their journal."""

from rest_framework import serializers

from nodes.api.placed import PlacedSerializer
from nodes.api.strict import NewestQuery, PageQuery, SearchField
from nodes.models import Node, NodeEvent


class NodeSerializer(PlacedSerializer, serializers.ModelSerializer[Node]):
    """Node: one run of one process."""

    is_main = serializers.BooleanField(read_only=True, help_text="True if the node is the main manager of its scope.")

    class Meta:
        model = Node
        fields = (
            "id",
            "kind",
            "name",
            "tags",
            "scope",
            "status",
            "reason",
            "is_main",
            "started_at",
            "heartbeat_at",
            "timeout_seconds",
            "stopped_at",
            "capacity",
            "refused_writes",
            "progress",
            "host",
            "pid",
            "address",
            "partition",
        )
        read_only_fields = fields


class NodeEventSerializer(PlacedSerializer, serializers.ModelSerializer[NodeEvent]):
    """Event of a node."""

    class Meta:
        model = NodeEvent
        fields = ("id", "at", "node", "scope", "kind", "message", "detail", "partition")
        read_only_fields = fields


class NodeQuery(PageQuery):
    search = SearchField()
    ordering = serializers.ChoiceField(
        ["-started_at", "started_at"], default="-started_at", help_text="`started_at`: oldest first."
    )
    scope = serializers.CharField(required=False, max_length=200)
    kind = serializers.ChoiceField(Node.Kind.choices, required=False)
    status = serializers.ChoiceField(Node.Status.choices, required=False)


class NodeEventQuery(NewestQuery):
    node = serializers.UUIDField(source="node_id", required=False)
    scope = serializers.CharField(required=False, max_length=200)
    kind = serializers.ChoiceField(NodeEvent.Kind.choices, required=False)
