"""Lists of the set-up whose cost is bounded, however many rows there are."""

from functools import cached_property
from typing import Any, Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin

_MOST: Final = 1_000


class FirstPages(Paginator):  # type: ignore[type-arg]
    """Pages of the first rows: no count of all rows, and no page far away."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[:_MOST].count()
        return found


class BoundedList(ModelAdmin):  # type: ignore[misc]
    """The first thousand rows in the order of their names. Others are found by searching."""

    paginator = FirstPages
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 50
    # Sortable only in the order of an index.
    sortable_by: tuple[str, ...] = ("name",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:  # noqa: ANN401 (Django's)
        shown = super().get_changelist_instance(request)
        # The page shows the number of results beside the number of all rows, up to the limit.
        shown.full_result_count = FirstPages(shown.root_queryset, self.list_per_page).count
        shown.show_full_result_count = True
        if shown.result_count >= _MOST and request.method == "GET":
            messages.info(
                request, _("This list shows the first %(most)d rows. Search for the others.") % {"most": _MOST}
            )
        return shown
