"""The serializers of the lines of reports, for answers of the API and for files."""

from functools import cache
from typing import Any

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from jobs.lifecycle.document import Action
from jobs.queries.reports.busiest import BusyLine
from jobs.queries.reports.document_states import State, Status
from jobs.queries.reports.document_status import DocumentStatusLine
from jobs.queries.reports.histogram import HistogramLine
from jobs.queries.reports.queue_status import QueueLine
from jobs.queries.reports.simple_history import HistoryLine


def _partition() -> serializers.CharField:
    return serializers.CharField(
        help_text="Name of the partition that has it. Empty if it is the partition that answers."
    )


class HistoryLineSerializer(serializers.Serializer[HistoryLine]):
    """Activity in the history."""

    started_at = serializers.DateTimeField()
    activity = serializers.CharField()
    identifier = serializers.CharField()
    result_code = serializers.CharField()
    bytes = serializers.IntegerField(allow_null=True)
    seconds = serializers.FloatField(allow_null=True)
    result_description = serializers.CharField()
    repository = serializers.CharField()
    job = serializers.CharField()
    node = serializers.CharField(help_text="Worker that did it. Empty if no worker did it, or if it is not recorded.")
    partition = _partition()


class BusyLineSerializer(serializers.Serializer[BusyLine]):
    """Class of identifiers with its busiest interval."""

    identifier_class = serializers.CharField()
    began_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    amount = serializers.IntegerField(help_text="Activities that began in the interval, or their bytes.")
    per_minute = serializers.FloatField()
    partition = _partition()


class HistogramLineSerializer(serializers.Serializer[HistogramLine]):
    """Number of activities of one class of identifiers with one class of results."""

    identifier_class = serializers.CharField()
    result_class = serializers.CharField()
    amount = serializers.IntegerField()


class DocumentStatusSerializer(serializers.Serializer[DocumentStatusLine]):
    """Document with its state and next step."""

    identifier = serializers.CharField()
    job = serializers.CharField()
    state = serializers.ChoiceField([*State])
    status = serializers.ChoiceField([*Status])
    scheduled_at = serializers.DateTimeField(allow_null=True)
    scheduled_action = serializers.SerializerMethodField(
        help_text="`process` or `expire`. Null if nothing is scheduled."
    )
    retry_count = serializers.IntegerField()
    failing_since = serializers.DateTimeField(allow_null=True)
    retry_limit = serializers.IntegerField(
        allow_null=True, help_text="Attempts after which the job gives the document up."
    )
    retry_until = serializers.DateTimeField(allow_null=True, help_text="Moment at which the job gives the document up.")
    result_code = serializers.CharField()
    partition = _partition()

    def get_scheduled_action(self, line: DocumentStatusLine) -> str | None:
        return None if line.action is None else Action(line.action).name.lower()


class QueueLineSerializer(serializers.Serializer[QueueLine]):
    """Number of documents in each status, for one class of identifiers."""

    identifier_class = serializers.CharField()
    documents = serializers.IntegerField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        counts = {status.value: serializers.IntegerField(source=f"counts.{status.value}") for status in Status}
        return {**super().get_fields(), **counts}


@cache
def page_of(line: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """
    Return the serializer of a page of such lines. Reports with equal lines share it, so the API description has it
    once.
    """
    return inline_serializer(
        f"{line.__name__.removesuffix('Serializer')}Page",
        {
            "results": line(many=True),
            "next": serializers.URLField(allow_null=True, help_text="Address of the next page. Null on the last page."),
            "partition": serializers.CharField(
                help_text="Name of the only partition in the report. Empty if the report has all partitions."
            ),
            "silent": serializers.ListField(
                child=serializers.CharField(),
                help_text="Partitions that did not answer. Their rows are missing, so the true counts may be higher.",
            ),
        },
    )
