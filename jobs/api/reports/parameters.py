"""The parameters of a report."""

from typing import Any, Final

from rest_framework import serializers

from jobs.api.fields import HIGHEST_ID
from jobs.queries.reports.busiest import DEFAULT_INTERVAL, LONGEST_INTERVAL, SHORTEST_INTERVAL
from jobs.queries.reports.classes import EVERYTHING, ITSELF
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import State, Status
from jobs.queries.reports.history_filter import DEFAULT_SPAN, HistoryFilter
from jobs.queries.reports.simple_history import SORTS
from nodes.api.strict import MomentField, PageQuery, StrictSerializer
from nodes.database.clock import read_clock

_MOST_NAMED: Final = 1_000
# Largest number of activities that a query may name. This number of names fits into the longest address that a web
# server accepts.
_MOST_ACTIVITIES: Final = 50


class ReportQuery(PageQuery):
    # Longest position (characters). In a list that is sorted by identifier, a position contains an identifier.
    cursor = serializers.CharField(
        max_length=10_000, required=False, help_text="Start of the page, taken from `next` of the previous page."
    )


class HistoryQuery(ReportQuery):
    """The parameters of a report about a period of the history."""

    repository = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    job = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    activity = serializers.ListField(
        child=serializers.CharField(max_length=500),
        max_length=_MOST_ACTIVITIES,
        required=False,
        help_text="Names of activities, as in the history; repeatable. `document ingest` stands for those of all outputs.",
    )
    since = MomentField(required=False, help_text="Start of the interval. Default: one hour before `until`.")
    until = MomentField(required=False, help_text="End of the interval (exclusive). Default: now.")
    entity = serializers.CharField(
        max_length=1_000, required=False, help_text="Regular expression (PostgreSQL) for identifiers."
    )
    code = serializers.CharField(
        max_length=1_000, required=False, help_text="Regular expression (PostgreSQL) for result codes."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until = attrs.setdefault("until", read_clock())
        since = attrs.setdefault("since", until - DEFAULT_SPAN)
        if since >= until:
            raise serializers.ValidationError({"since": ["Choose a start before `until`."]})
        return attrs


class SimpleHistoryQuery(HistoryQuery):
    sort = serializers.ChoiceField(list(SORTS), default="start")
    order = serializers.ChoiceField(["descending", "ascending"], default="descending")


class BusyQuery(HistoryQuery):
    identifier_class = serializers.CharField(
        max_length=1_000, default=EVERYTHING, help_text="Regular expression whose first group is the class."
    )
    interval = serializers.FloatField(
        min_value=SHORTEST_INTERVAL.total_seconds(),
        max_value=LONGEST_INTERVAL.total_seconds(),
        default=DEFAULT_INTERVAL.total_seconds(),
        help_text="Seconds.",
    )


class HistogramQuery(HistoryQuery):
    identifier_class = serializers.CharField(max_length=1_000, default=EVERYTHING)
    result_class = serializers.CharField(max_length=1_000, default=ITSELF)


class DocumentsQuery(StrictSerializer):
    """
    The parameters of a report about present documents. The report shows which of them are due at the moment `now`.
    """

    repository = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    job = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=HIGHEST_ID), max_length=_MOST_NAMED, required=False
    )
    state = serializers.ListField(child=serializers.ChoiceField([*State]), max_length=len(State), required=False)
    status = serializers.ListField(child=serializers.ChoiceField([*Status]), max_length=len(Status), required=False)
    identifier = serializers.CharField(max_length=1_000, required=False, help_text="Regular expression (PostgreSQL).")
    now = MomentField(required=False, help_text="Moment at which readiness is evaluated. Default: now.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs.setdefault("now", read_clock())
        return attrs


class DocumentStatusQuery(DocumentsQuery, ReportQuery):
    pass


class QueueQuery(DocumentsQuery):
    identifier_class = serializers.CharField(max_length=1_000, default=EVERYTHING)


class QueueStatusQuery(QueueQuery, ReportQuery):
    pass


def history_of(query: dict[str, Any]) -> HistoryFilter:
    """Return the history that a valid query requests."""
    return HistoryFilter(
        since=query["since"],
        until=query["until"],
        repository_id=query.get("repository"),
        job_id=query.get("job"),
        activities=query.get("activity", ()),
        entity=query.get("entity", ""),
        code=query.get("code", ""),
    )


def documents_of(query: dict[str, Any]) -> StatusFilter:
    """Return the documents that a valid query requests."""
    return StatusFilter(
        now=query["now"],
        repository_id=query.get("repository"),
        job_ids=query.get("job", ()),
        states=[State(state) for state in query.get("state", ())],
        statuses=[Status(status) for status in query.get("status", ())],
        identifier=query.get("identifier", ""),
        host=query.get("host", ""),
        codes=query.get("code", ()),
        listed_state=query.get("listed_state", ""),
        contains=query.get("contains", ""),
        documents=query.get("documents", ()),
    )
