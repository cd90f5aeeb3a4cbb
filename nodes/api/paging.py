"""
Pages by key: each page starts after the last row of the page before.

The position is in an opaque, signed cursor. Each page costs the same, wherever it is in the list. Rows inserted or
deleted meanwhile neither repeat nor hide other rows.
"""

from collections.abc import Sequence
from typing import Any, Final

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from nodes.api.base import ContractView
from nodes.api.strict import PageQuery, StrictSerializer, read_query
from nodes.models.keyset import rows_behind
from nodes.models.word_search import named_with

# Parameters that control the pages and name no column.
_OF_PAGES: Final = frozenset({"limit", "cursor", "search", "ordering"})


class KeysetPagination(BasePagination):
    """Pages of a `ListingView`, in the order of its keyset."""

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: APIView | None = None
    ) -> list[Any]:
        assert isinstance(view, ListingView)
        assert isinstance(queryset, QuerySet)
        limit = view.query["limit"]
        names, downwards = columns_of(view.keyset)
        if "cursor" in view.query:
            last = read_cursor(view.query["cursor"], model=queryset.model, keyset=view.keyset)
            queryset = queryset.filter(rows_behind(names, last, downwards=downwards))
        rows = list(queryset.order_by(*view.keyset)[: limit + 1])
        self.next = None
        if len(rows) > limit:
            rows = rows[:limit]
            last = [getattr(rows[-1], name) for name in names]
            self.next = address_behind(last, request=request, model=queryset.model, keyset=view.keyset)
        return rows

    def get_paginated_response(self, data: object) -> Response:
        return page_response(data, next_page=self.next)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {
                "results": schema,
                "next": {
                    "type": "string",
                    "format": "uri",
                    "nullable": True,
                    "description": "Address of the next page. Null on the last page.",
                },
            },
        }


class ListingView(ContractView, ListModelMixin, GenericViewSet[Any]):
    """
    A view that lists rows in pages, in the order of `keyset`.

    A keyset consists of columns that are unique together. Either all columns have a minus, or no column has one. The
    `ordering` of a query is the first column of the keyset, ascending or descending, or another unique column.
    `query_class` declares the parameters. `narrowed` applies them.
    """

    query_class: type[StrictSerializer] = PageQuery
    keyset: Sequence[str] = ("id",)
    pagination_class = KeysetPagination
    query: dict[str, Any]

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.action != "list":
            return queryset
        self.query = read_query(self.query_class, self.request)
        return self.chosen(queryset, self.query)

    def chosen(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        """Return the rows that the parameters of a query select. Set `keyset` to the order that the query names."""
        self.keyset = _ordered(self.keyset, query.get("ordering", self.keyset[0]))
        if "search" in query:
            queryset = named_with(queryset, query["search"])
        return self.narrowed(queryset, query)

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        """Return the requested rows: every parameter filters the column of its name."""
        columns = {name: value for name, value in query.items() if name not in _OF_PAGES}
        return queryset.filter(**columns)


def page_response(results: object, *, next_page: str | None) -> Response:
    """Return one page, in the form of every list of the API."""
    return Response({"results": results, "next": next_page})


def refuse_cursor() -> serializers.ValidationError:
    return serializers.ValidationError({"cursor": ["Invalid cursor for this list. Start without a cursor."]})


def _ordered(keyset: Sequence[str], ordering: str) -> Sequence[str]:
    names, _ = columns_of(keyset)
    if ordering.removeprefix("-") != names[0]:
        return (ordering,)
    return [f"-{name}" for name in names] if ordering.startswith("-") else names


def columns_of(keyset: Sequence[str]) -> tuple[list[str], bool]:
    """Return the columns of a keyset, and True if the list is in descending order."""
    return [name.removeprefix("-") for name in keyset], keyset[0].startswith("-")


def _salt(model: type[Model], keyset: Sequence[str]) -> str:
    return f"cursor of {model._meta.label} by {','.join(keyset)}"  # noqa: SLF001 (Django has no public name)


def address_behind(last: Sequence[Any], *, request: Request, model: type[Model], keyset: Sequence[str]) -> str:
    """Return the address of the page that begins after a row with these values of the keyset."""
    cursor = signing.dumps([str(value) for value in last], salt=_salt(model, keyset))
    return replace_query_param(request.build_absolute_uri(), "cursor", cursor)


def read_cursor(cursor: str, *, model: type[Model], keyset: Sequence[str]) -> list[Any]:
    """
    Return the values in a cursor: first those of the keyset, with the types of their columns, then any others as texts.
    """
    names, _ = columns_of(keyset)
    try:
        written = signing.loads(cursor, salt=_salt(model, keyset))
    except signing.BadSignature:
        raise refuse_cursor() from None
    values = [
        model._meta.get_field(name).to_python(value)  # type: ignore[union-attr]  # noqa: SLF001
        for name, value in zip(names, written[: len(names)], strict=True)
    ]
    return [*values, *written[len(names) :]]
