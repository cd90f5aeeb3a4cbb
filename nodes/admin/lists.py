"""Lists of the set-up whose cost is bounded, however many rows there are."""

from functools import cached_property
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin
from unfold.views import ChangeList

from nodes.web.form_conflicts import SeenForm

_MOST: Final = 1_000
# Largest number of characters in a search: the length of the longest name.
_LONGEST_SEARCH: Final = 400
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('form of ' || %s, 0))"


class FirstPages(Paginator):  # type: ignore[type-arg]
    """Pages of the first rows: no count of all rows, and no link to a distant page."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by().values("pk")[:_MOST].count()
        return found


class OfferedFilters(ChangeList):  # type: ignore[misc]
    """
    A list whose rows are selected by its own filters and its search only.

    Django also selects by each lookup that an address contains, even on a field that the page does not show. So
    a viewer could guess the stored form of a secret, character by character, or let the database evaluate an expensive
    pattern on each row.
    """

    def get_filters(self, request: HttpRequest) -> Any:  # noqa: ANN401 (Django's)
        given = self.get_filters_params()
        if any("\0" in value for values in given.values() for value in values):
            raise IncorrectLookupParameters
        found = super().get_filters(request)
        _filters, _has_filters, not_offered, *_others = found
        if not_offered:
            raise IncorrectLookupParameters
        return found


class SeenChanges(ModelAdmin):  # type: ignore[misc]
    """A page whose form stores nothing if the object was changed after the form was opened."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:  # noqa: ANN401 (Django's)
        """
        Return the object. If two forms are sent at the same time, the second waits here, and is then compared with the
        stored values of the first.
        """
        if request.method == "POST" and connection.in_atomic_block:
            with connection.cursor() as cursor:
                cursor.execute(_ONE_AT_A_TIME, [f"{self.opts.label} {object_id}"])
        return super().get_object(request, object_id, from_field)

    def get_form(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:  # noqa: ANN401 (a generated type)
        form = super().get_form(request, obj, **kwargs)
        return form if obj is None else type(form.__name__, (SeenForm, form), {})

    def _create_formsets(self, request: HttpRequest, obj: Any, change: bool) -> Any:  # noqa: ANN401, FBT001 (Django's)
        """Give the formsets to the form of the object, because Django validates the form before them."""
        formsets, inlines = super()._create_formsets(request, obj, change)
        if change:
            obj.opened_with = formsets
        return formsets, inlines

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Model | None = None, **kwargs: Any
    ) -> Any:  # noqa: ANN401 (Django's)
        form = context["adminform"].form
        if obj is not None and isinstance(form, SeenForm) and self.has_change_permission(request, obj):
            context = {**context, "seen": form.mark}
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)


class BoundedList(SeenChanges):
    """The first thousand rows in the order of their names. A search finds further rows."""

    paginator = FirstPages
    counts_rows = True
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 50
    # Columns that sort the list. Each one needs an index.
    sortable_by: tuple[str, ...] = ("name",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[OfferedFilters]:
        return OfferedFilters

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ANN401 (Django's)
        """
        Search for words, but not in a very long text. Django adds a condition for each word, and the planner of the
        database compares all conditions with each other.
        """
        if len(search_term) > _LONGEST_SEARCH:
            messages.warning(request, _("Search for at most %(most)d characters.") % {"most": _LONGEST_SEARCH})
            return queryset.none(), False
        found: tuple[Any, bool] = super().get_search_results(request, queryset, search_term)
        return found

    def get_changelist_instance(self, request: HttpRequest) -> Any:  # noqa: ANN401 (Django's)
        shown = super().get_changelist_instance(request)
        if not self.counts_rows:
            return shown
        # The page shows two numbers: of the results and of all rows. Both are counted up to the limit only.
        shown.full_result_count = FirstPages(shown.root_queryset, self.list_per_page).count
        shown.show_full_result_count = True
        if shown.result_count >= _MOST and request.method == "GET":
            messages.info(
                request, _("This list shows the first %(most)d rows. Search for the others.") % {"most": _MOST}
            )
        return shown


class OwnedList(BoundedList):
    """Rows that the system owns: users see them, and change them by actions only."""

    sortable_by: tuple[str, ...] = ()
    list_disable_select_all = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def response_action(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ANN401 (Django's)
        """Perform an action on rows of this page. Refuse an action on all rows of the list, which may be very many."""
        if request.POST.get("select_across", "0") != "0":
            raise PermissionDenied(_("Select rows of this page."))
        return super().response_action(request, queryset)


def one_selected(request: HttpRequest, selected: Any) -> Any:  # noqa: ANN401 (a queryset of any model)
    """Return the selected row of an action for one row; None with a message if there are several."""
    rows = list(selected[:2])
    if len(rows) == 1:
        return rows[0]
    messages.warning(request, _("Select exactly one row for this action."))
    return None
