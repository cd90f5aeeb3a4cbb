"""Documents in the API: their results with the reasons, and the outputs that hold them."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Value
from django.db.models.functions import Collate, Lower, StrIndex
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, Part, PlacedSerializer
from jobs.api.fields import HIGHEST_ID
from jobs.lifecycle.document import CLAIMED, Stage
from jobs.models import CounterDelta, IndexedDocument, Job, JobCounter, Outcome, OutputConnection, QueueItem, Seed
from jobs.partitions.merged import local_job, read_everywhere
from jobs.queries.documents.conditions import (
    hashes_of,
    host_of,
    keeping_to_keys,
    lanes_if_few,
    lanes_of_host,
    outcomes_of_code,
)
from jobs.queries.documents.lists import MOST_ORDERED, OrderTooWide
from jobs.queries.documents.outputs import PartLine, read_parts
from jobs.queue import address_index
from jobs.queue.address_index import GRAM
from nodes.api.strict import PageQuery

_STAGES = {stage.name.lower(): stage for stage in Stage}
_OUTCOMES = {outcome.label.replace(" ", "_"): outcome for outcome in Outcome}

_ORDERED = ("depth", "fetched_at", "check_time", "response_ms")
_COLUMNS = {"job": "job_id", "result_code": "result_code"}

# If few documents match a filter, the query may read very many. An error that asks for a narrower filter is better than
# a wait of minutes.
_STATEMENT_TIMEOUT = "5s"


class HeldSerializer(serializers.Serializer[IndexedDocument]):
    """Output that holds the document."""

    output = serializers.IntegerField(
        source="output_id",
        allow_null=True,
        help_text="Null if another partition has the document, and no output of this partition has its name.",
    )
    name = serializers.CharField(source="output.name")
    indexed_at = serializers.DateTimeField()


class DocumentSerializer(PlacedSerializer):
    """Document of a job: one address in the queue."""

    id = serializers.SerializerMethodField()
    job = serializers.IntegerField(source="job_id")
    seed = serializers.IntegerField(
        source="lane.seed_id",
        allow_null=True,
        help_text="Null if another partition has the document, and no seed of this partition has its first address.",
    )
    host = serializers.CharField(source="lane.bin.name")
    url = serializers.CharField(source="identifier")
    state = serializers.SerializerMethodField(help_text="Stage of the document in the queue.")
    manifoldcf_status = serializers.CharField(
        help_text="State in ManifoldCF's words. Empty if this run has not reached the document."
    )
    outcome = serializers.SerializerMethodField(help_text="Class of its result.")
    result_code = serializers.CharField(help_text="Result code: an HTTP status or a word.")
    run_no = serializers.IntegerField(help_text="Last run that reached the document.")
    depth = serializers.IntegerField()
    redirects = serializers.IntegerField()
    failures = serializers.IntegerField(help_text="Number of consecutive failed attempts.")
    losses = serializers.IntegerField(help_text="Number of workers that failed while they held it.")
    check_time = serializers.DateTimeField(
        allow_null=True, help_text="Moment at which it is due. Null if it is due now."
    )
    fetched_at = serializers.DateTimeField(allow_null=True)
    response_ms = serializers.IntegerField(
        allow_null=True, help_text="Duration of its last request (ms). Null if no request was recorded."
    )
    held_by = HeldSerializer(many=True, help_text="Outputs of its job that hold the document.")

    def get_id(self, item: QueueItem) -> str:
        return f"{item.job_id}-{item.hash.hex}"

    def get_state(self, item: QueueItem) -> str:
        return Stage(item.stage).name.lower()

    def get_outcome(self, item: QueueItem) -> str:
        return _word(Outcome(item.outcome))


class DocumentQuery(PageQuery):
    url = serializers.CharField(max_length=10_000, required=False, help_text="Full address of a document.")
    url_begins = serializers.CharField(
        max_length=10_000,
        required=False,
        help_text="Beginning of the addresses, such as `https://docs.example/manual/`. The search is fast with a host or with `job`.",
    )
    url_contains = serializers.CharField(
        min_length=GRAM,
        max_length=1_000,
        required=False,
        help_text="Part of the addresses, such as `/archive/2024/`. Upper and lower case of ASCII letters are the same.",
    )
    job = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    state = serializers.ChoiceField(list(_STAGES), required=False)
    outcome = serializers.ChoiceField(list(_OUTCOMES), required=False)
    host = serializers.CharField(
        max_length=300, required=False, help_text="Host name, with its port unless that is 80 or 443."
    )
    result_code = serializers.CharField(max_length=30, required=False)
    ordering = serializers.ChoiceField(
        [sign + name for name in _ORDERED for sign in ("", "-")],
        required=False,
        help_text=f"`-` before a name reverses the order. At most {MOST_ORDERED:,} documents may match. Documents without the value "
        "are left out. Default: by the hash of the address.",
    )


class PartSerializer(serializers.Serializer[PartLine]):
    """Part of a document, such as an attachment."""

    part = serializers.CharField(help_text="Path of the part within the document.")
    url = serializers.CharField(source="address", help_text="Address of the part in the outputs.")
    outputs = serializers.ListField(child=serializers.CharField(), help_text="Names of the outputs that hold the part.")
    indexed_at = serializers.DateTimeField()


class OneDocumentSerializer(DocumentSerializer):
    """Document of a job with its parts."""

    parts = PartSerializer(many=True, help_text="Parts in the outputs, ordered by their paths.")


@extend_schema_view(
    list=extend_schema(description="List documents of all jobs and partitions, ordered by their hashes.")
)
class DocumentView(EverywhereView):
    """
    Documents in pages. Pages are sorted by the primary key (hash, job), so each page begins with one look-up in its
    index.

    With a filter, the planner may sort the documents of a few lanes instead if that is less work.
    """

    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_queueitem", "retrieve": "jobs.view_queueitem"}
    queryset = QueueItem.objects.prefetch_related("job", "lane__bin")
    serializer_class = DocumentSerializer
    query_class = DocumentQuery
    keyset: Sequence[str] = ("hash", "job_id")
    lookup_value_regex = "[0-9]{1,19}-[0-9a-f]{32}"
    lookup_url_kwarg = "id"
    _is_of_few = False

    def get_queryset(self) -> QuerySet[Any]:
        found = super().get_queryset()
        return found.prefetch_related("lane__seed") if self.partition else found

    def part_for(self, query: Mapping[str, Any]) -> Part:
        if not self.partition:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = '{_STATEMENT_TIMEOUT}'")
        return super().part_for(query)

    def fetched(self, queryset: QuerySet[Any]) -> Sequence[Any]:
        with keeping_to_keys(is_of_few=self._is_of_few):
            return super().fetched(queryset)

    def described(self, rows: Sequence[Any]) -> Sequence[Any]:
        attach_holders(rows)
        return rows

    def with_names(self, row: dict[str, Any], item: QueueItem) -> dict[str, Any]:
        # Ids of seeds differ between partitions. A seed is found in another partition by its first address.
        return {**row, "id": f"{row['job']}-{item.hash.hex}", "seed": next(iter(item.lane.seed.urls), "")}

    def replace_names(self, rows: Sequence[dict[str, Any]]) -> None:
        jobs, addresses = {row["job"] for row in rows}, {row["seed"] for row in rows}
        known = Seed.objects.filter(job__in=jobs, urls__0__in=addresses, removed_at=None).order_by("-id")
        seeds = {(seed.job_id, seed.urls[0]): seed.pk for seed in known}
        names = {held["name"] for row in rows for held in row["held_by"]}
        outputs = dict(OutputConnection.objects.filter(name__in=names).values_list("name", "id"))
        for row in rows:
            row["seed"] = seeds.get((row["job"], row["seed"]))
            for held in row["held_by"]:
                held["output"] = outputs.get(held["name"])

    @extend_schema(
        description="Return one document.",
        responses=OneDocumentSerializer,
        parameters=[OpenApiParameter("id", OpenApiTypes.STR, OpenApiParameter.PATH, pattern=lookup_value_regex)],
    )
    def retrieve(self, request: Request, id: str) -> Response:  # noqa: A002 (the address's word)
        number, _, digest = id.partition("-")
        shown = self._one(int(number), digest)
        if shown is None:
            shown = self._read_elsewhere(int(number), digest)
        if shown is None:
            raise Http404
        return Response(shown)

    def _one(self, job_id: int, digest: str) -> dict[str, Any] | None:
        item = self.get_queryset().filter(hash=digest, job_id=job_id).first()
        if item is None:
            return None
        attach_holders([item])
        item.parts = read_parts(item)
        row = dict(OneDocumentSerializer(item, context=self.get_serializer_context()).data)
        return self.with_names(row, item) if self.partition else row

    def _read_elsewhere(self, number: int, digest: str) -> dict[str, Any] | None:
        """Return the document as its own partition shows it; None if no partition that answers knows it."""

        def elsewhere(partition: str) -> dict[str, Any] | None:
            local = local_job(number)
            view = copy.copy(self)
            view.partition = partition
            row = None if local is None else view._one(local, digest)  # noqa: SLF001 (a copy)
            return row and {**row, "job": number, "id": f"{number}-{digest}"}

        found = read_everywhere(lambda: None, elsewhere)
        row = next((row for row in found.others.values() if row is not None), None)
        if row is not None:
            self.replace_names([row])
        return row

    def chosen(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        # `narrowed` sorts the documents, because each order needs more columns than the one in its name.
        return self.narrowed(queryset, query)

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        asked: dict[str, Any] = {column: query[name] for name, column in _COLUMNS.items() if name in query}
        if "state" in query:
            asked["stage"] = _STAGES[query["state"]]
        if "outcome" in query:
            asked["outcome"] = _OUTCOMES[query["outcome"]]
        if "url" in query:
            asked["hash__in"] = hashes_of(query["url"])
        if "url_begins" in query:
            asked["identifier__startswith"] = query["url_begins"]
            host = host_of(query["url_begins"])
            query = {**({"host": host} if host else {}), **query}
        if "url_contains" in query:
            queryset, are_few = _containing(queryset, query["url_contains"], job_id=query.get("job"))
            self._is_of_few = are_few
        lanes = lanes_if_few(job_id=query.get("job"), host=query.get("host", ""))
        if lanes is not None:
            asked["lane__in"] = lanes
        elif "host" in query:
            asked["lane__in"] = lanes_of_host(query["host"])
        if "stage" in asked and not _counts_any_in(asked["stage"]):
            return queryset.none()
        if asked.get("stage") in CLAIMED:
            # Documents in progress have a batch, and this condition lets the planner use their index.
            asked["batch__isnull"] = False
        self._is_of_few |= lanes is not None or "batch__isnull" in asked
        found = queryset.filter(**asked)
        if "result_code" in query:
            found = found.filter(outcome__in=outcomes_of_code(query["result_code"], job_id=query.get("job")))
        return self._ordered(found, query["ordering"]) if "ordering" in query else found

    def _ordered(self, found: QuerySet[Any], ordering: str) -> QuerySet[Any]:
        """
        Return the documents that have a value in the column of the ordering, sorted by this value. No index has this
        order, so at most `MOST_ORDERED` documents may match.
        """
        direction, column = ordering[: ordering.startswith("-")], ordering.removeprefix("-")
        found = found.filter(**{f"{column}__isnull": False})
        if found.order_by()[: MOST_ORDERED + 1].count() > MOST_ORDERED:
            raise serializers.ValidationError({"ordering": [str(OrderTooWide())]})
        self.keyset = [f"{direction}{name}" for name in (column, "hash", "job_id")]
        self._is_of_few = True
        return found


def _containing(queryset: QuerySet[Any], text: str, *, job_id: int | None) -> tuple[QuerySet[Any], bool]:
    """Return the documents with this text in their address, and True if they are few and were found by their keys."""
    connection.ensure_connection()
    found = address_index.find(connection.connection, text, job_id=job_id)
    if found is not None:
        return queryset.filter(hash__in=found), True
    address = Lower(Collate("identifier", "C"))
    return queryset.alias(place=StrIndex(address, Value(address_index.lowered(text)))).filter(place__gt=0), False


def _counts_any_in(stage: Stage) -> bool:
    """
    True if the counters count any document in this stage. If they count none, no query for such documents is needed.
    """
    counted = {"measure": "stage", "stage": stage, "amount__gt": 0}
    return any(rows.objects.filter(**counted).exists() for rows in (JobCounter, CounterDelta))


def attach_holders(items: Sequence[QueueItem]) -> None:
    """
    Set `held_by` of each document. The query names the outputs of the jobs, because its index begins with the output.
    """
    jobs = {item.job_id for item in items}
    ids = Job.outputs.through.objects.filter(job__in=jobs).values_list("outputconnection", flat=True)
    outputs = OutputConnection.objects.in_bulk(set(ids))
    holding = IndexedDocument.objects.filter(output__in=list(outputs), hash__in=[item.hash for item in items])
    held: dict[Any, list[IndexedDocument]] = {}
    for row in holding.order_by("output_id"):
        row.output = outputs[row.output_id]
        held.setdefault(row.hash, []).append(row)
    for item in items:
        item.held_by = held.get(item.hash, [])  # type: ignore[attr-defined]


def _word(outcome: Outcome) -> str:
    return str(outcome.label).replace(" ", "_")
