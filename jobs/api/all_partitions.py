"""Lists of the API with the rows of all partitions."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import ThrottlePolicy
from jobs.partitions import this_partition
from jobs.partitions.merged import (
    Silent,
    local_job,
    merge_lines,
    numbers_of,
    read_everywhere,
    rows_of_next_page,
)
from nodes.api.paging import KeysetPagination, ListingView, address_behind, columns_of, read_cursor
from nodes.api.placed import PlacedSerializer as OfAnyPartition
from nodes.api.strict import read_query


class PlacedSerializer(OfAnyPartition):
    """A row that names the partition that has it."""

    def get_partition(self, row: object) -> str:
        return super().get_partition(row) or this_partition.foreign_name()


class _PagesOfAll(KeysetPagination):
    """Describe the pages that `EverywhereView` returns, for the schema of the API."""

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        page = super().get_paginated_response_schema(schema)
        silent = {
            "type": "array",
            "items": {"type": "string"},
            "description": "Partitions that did not answer. Their rows are missing, so the true counts may be higher.",
        }
        return page | {"required": [*page["required"], "silent"], "properties": page["properties"] | {"silent": silent}}


@dataclass(frozen=True, slots=True)
class _Row:
    """
    A row of any partition. The ids in its `key` are valid in the partition of the row. `shown` is None if the control
    partition does not know the job of the row.
    """

    key: Sequence[Any]
    shown: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Part:
    """
    The rows of one partition for a page. There may be one row more than the page holds: it shows that a next page
    exists.
    """

    keyset: Sequence[str]
    rows: Sequence[_Row] = field(default=())


class EverywhereView(ListingView):
    """
    A view of a list with the rows of all partitions. If `of_jobs` is true, each row belongs to a `job`.

    The keyset has the columns by which the list is sorted. The last column is unique in one database only. The other
    columns have the same meaning in all databases, so rows are merged by them. Without other columns, the list shows
    one partition after the other.
    """

    queryset: QuerySet[Any]
    of_jobs = True
    pagination_class = _PagesOfAll
    partition = ""

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        self.query = read_query(self.query_class, request)
        found = read_everywhere(lambda: self._read_part(""), self._read_part)
        _names, downwards = columns_of(found.own.keyset)
        rows = merge_lines(found, lambda part: part.rows, key=lambda row: row.key[:-1], is_downwards=downwards)
        shown, more = rows[: self.query["limit"]], rows[self.query["limit"] :]
        self.replace_names([one.line.shown for one in shown if one.partition and one.line.shown is not None])
        return Response(
            {
                "results": [one.line.shown for one in shown if one.line.shown is not None],
                "next": address_behind(
                    [*shown[-1].line.key, shown[-1].partition],
                    request=request,
                    model=self.get_queryset().model,
                    keyset=found.own.keyset,
                )
                if more
                else None,
                "silent": names_of(found.silent),
            }
        )

    def fetched(self, queryset: QuerySet[Any]) -> Sequence[Any]:
        """Return the rows of this query, which runs in a transaction."""
        return list(queryset)

    def described(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the shown fields of each row; None for a row that is not shown."""
        return rows

    def with_names(self, row: dict[str, Any], _one: Any) -> dict[str, Any]:  # noqa: ANN401 (what `described` returned)
        """
        Return a row for the control partition. Names replace the ids of this database, except for the id of the job.
        """
        return row

    def replace_names(self, rows: Sequence[dict[str, Any]]) -> None:
        """Replace names by the ids of the control partition, in rows of other partitions."""

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "partition": self.partition or this_partition.foreign_name()}

    def _read_part(self, partition: str) -> Part:
        """Read the part of one partition, from the database of this thread."""
        # A filter may change the keyset of the view, so each thread needs a copy of the view.
        view = copy.copy(self)
        view.partition, query = partition, self.query
        if partition and "job" in query:
            query = {**query, "job": local_job(query["job"])}
            if query["job"] is None:
                return Part(self.keyset)
        with transaction.atomic():
            return view.part_for(query)

    def part_for(self, query: Mapping[str, Any]) -> Part:
        """Return the part of the partition whose database this thread uses. The query has the ids of that database."""
        queryset = self.chosen(self.get_queryset(), dict(query))
        columns, downwards = columns_of(self.keyset)
        if "cursor" in query:
            values = read_cursor(query["cursor"], model=self.get_queryset().model, keyset=self.keyset)
            last, place = values[: len(columns)], "".join(values[len(columns) :])
            behind = rows_of_next_page(
                columns, last, downwards=downwards, last_partition=place, partition=self.partition
            )
            queryset = queryset.filter(behind)
        rows = self.fetched(queryset.order_by(*self.keyset)[: query["limit"] + 1])
        numbers = numbers_of({row.job_id for row in rows}) if self.partition and self.of_jobs else {}
        shown = [None if one is None else self._shown(one, numbers) for one in self.described(rows)]
        keys = [[getattr(row, name) for name in columns] for row in rows]
        return Part(self.keyset, [_Row(key, one) for key, one in zip(keys, shown, strict=True)])

    def _shown(self, one: object, numbers: Mapping[int, int]) -> dict[str, Any] | None:
        row = dict(self.get_serializer(one).data)
        if not self.partition:
            return row
        if not self.of_jobs:
            return self.with_names(row, one)
        number = numbers.get(row["job"])
        return None if number is None else self.with_names({**row, "job": number}, one)


def names_of(silent: Sequence[Silent]) -> list[str]:
    return [one.name for one in silent]


def put_local_policy_ids(rows: Sequence[dict[str, Any]]) -> None:
    """
    Replace each policy's id in another partition by its id here, found by name; null if no policy here has the name.
    """
    places = [place for row in rows for place in _places_of_policies(row)]
    names = {place["policy_name"] for place in places}
    numbers = dict(ThrottlePolicy.objects.filter(name__in=names).values_list("name", "pk")) if names else {}
    for place in places:
        place["policy"] = numbers.get(place["policy_name"])


def _places_of_policies(value: object) -> Iterator[dict[str, Any]]:
    """Yield each object inside of a row that names a policy."""
    if isinstance(value, dict):
        if value.get("policy_name"):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _places_of_policies(part)
