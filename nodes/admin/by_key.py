"""Lists of very many rows in the order of a key: each page begins after the last key of the page before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote
from django.core.paginator import Paginator
from django.db import connection, transaction
from django.db.models import Model, QuerySet
from django.db.utils import OperationalError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from psycopg.errors import QueryCanceled

from nodes.admin.lists import OfferedFilters, OwnedList

_AFTER: Final = "after"
# Longest time of each statement that reads a list (milliseconds).
_PATIENCE: Final = 5_000


class _OnePage(Paginator):  # type: ignore[type-arg]
    """The paginator of one page. Its template links to the next page."""

    template_name = "admin/by_key.html"


class PageByKey(OfferedFilters):
    """A page of a list in the order of a key. The rows of the list are not counted."""

    def get_filters_params(self, params: Any = None) -> Any:  # noqa: ANN401 (Django's)
        found = super().get_filters_params(params)
        found.pop(_AFTER, None)
        return found

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[str]:  # noqa: ANN401 (Django's)
        return list(self.model_admin.key)

    def get_results(self, request: HttpRequest) -> None:
        found, after = self.queryset, request.GET.get(_AFTER, "")
        if after:
            try:
                found = self.model_admin.rows_after(found, after)
            except ValueError as error:
                raise IncorrectLookupParameters from error
        rows = self._read(request, found)
        shown = rows[: self.list_per_page]
        self.next_link = ""
        if len(rows) > self.list_per_page:
            self.next_link = self.get_query_string({_AFTER: self.model_admin.key_of(shown[-1])})
        self.first_link = self.get_query_string(remove=[_AFTER]) if after else ""
        self.result_list, self.result_count, self.full_result_count = shown, len(shown), len(shown)
        self.show_full_result_count, self.show_admin_actions = False, bool(shown)
        self.can_show_all = self.multi_page = False
        self.paginator = _OnePage(shown, self.list_per_page)

    def _read(self, request: HttpRequest, found: QuerySet[Any]) -> list[Any]:
        try:
            with _limited(), self.model_admin.reading(request):
                return list(found[: self.list_per_page + 1])
        except OperationalError as error:
            if not isinstance(error.__cause__, QueryCanceled):
                raise
            messages.warning(request, _("Too many rows to look through. Search for an exact value."))
            return []

    def url_for_result(self, result: Model) -> str:
        address: str = self.model_admin.address_of(result)
        return address


class ListByKey(OwnedList):
    """A list in the order of the columns `key`, which need an index. A subclass turns keys into text and back."""

    counts_rows = False
    key: tuple[str, ...] = ("-id",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PageByKey]:
        return PageByKey

    @contextmanager
    def reading(self, request: HttpRequest) -> Iterator[None]:
        """Run the block that reads a page. A subclass may prepare the database for it."""
        yield

    def rows_after(self, found: QuerySet[Any], after: str) -> QuerySet[Any]:
        """
        Return the rows of `found` that come after the row with the key `after`.

        Raises:
            ValueError: `after` is not a key.
        """
        return found.filter(pk__lt=int(after))

    def key_of(self, row: Any) -> str:  # noqa: ANN401 (a row of any table)
        """Return the key of a row as text."""
        return str(row.pk)

    def address_of(self, row: Any) -> str:  # noqa: ANN401 (a row of any table)
        """Return the address of the page of a row."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[quote(self.key_of(row))])


@contextmanager
def _limited() -> Iterator[None]:
    """Limit the time of the statements of the block."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_PATIENCE)])
        yield
