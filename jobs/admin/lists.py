"""Lists of the set-up whose cost is bounded, however many rows there are."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Model
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


class JournaledList(BoundedList):
    """A list of objects whose verbs store them whole, with their inlines, and write a journal of their own."""

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 (Django's)
        """Do nothing yet: the object is stored together with its inlines (`save_related`)."""

    def construct_change_message(
        self,
        request: HttpRequest,
        form: Any,  # noqa: ANN401 (each list's own)
        formsets: Sequence[Any],
        add: bool = False,  # noqa: FBT001, FBT002 (Django's)
    ) -> str:
        """Return a fixed word: the object's own journal has the changes, and the admin's log only the visit."""
        return "Added." if add else "Changed."
