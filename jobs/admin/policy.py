"""Throttle policies: plain rows, checked by their own columns."""

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from jobs.models import ThrottlePolicy


class ThrottlePolicyAdmin(ModelAdmin):  # type: ignore[misc]
    """An edit is in force from the next turn of each host, at most 10 s later."""

    list_display = ("name", "open_requests", "min_gap")
    search_fields = ("name",)
    fields = ("name", "open_requests", "min_gap")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ThrottlePolicy]:
        """Policies to choose from; one that a one-shot made for itself is shown with its job."""
        policies: QuerySet[ThrottlePolicy] = super().get_queryset(request)
        return policies.filter(private_to=None)
