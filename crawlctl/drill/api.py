"""Drills in the API."""

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from crawlctl.drill.models import Drill
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery


class DrillSerializer(serializers.ModelSerializer[Drill]):
    """Drill with its report. `report` of the fault `restore` has the lost time and the time to recover in seconds. Its
    `is_sealed` is false if the origin of the backup is not proven."""

    summary = serializers.CharField(source="came_to", help_text="Report in one line.")

    class Meta:
        model = Drill
        fields = ("id", "at", "fault", "whom", "node", "where", "is_good", "summary", "report")
        read_only_fields = fields


@extend_schema_view(list=extend_schema(description="List drills with their reports, newest first."))
class DrillView(ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "drill.view_drill"}
    queryset = Drill.objects.all()
    serializer_class = DrillSerializer
    query_class = NewestQuery
    keyset = ("-id",)
