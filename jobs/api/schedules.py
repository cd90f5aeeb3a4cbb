"""Schedules of all jobs, and their calendar."""

import datetime as dt
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule_text import window_in_words
from jobs.queries.jobs.schedule_calendar import FIRST_DAY, LAST_DAY, MOST_DAYS, read_calendar
from jobs.queries.jobs.schedules import ScheduleLine, SkipReason, list_schedules
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, StrictSerializer, read_query
from nodes.database.clock import read_clock

# Largest number of runs, and of starts, that each day of the calendar has.
_SHOWN = 100


class SkippedSerializer(serializers.Serializer[object]):
    """Latest window in which no run started for this reason."""

    at = serializers.DateTimeField()
    reason = serializers.ChoiceField([reason.value for reason in SkipReason])


class ScheduleSerializer(serializers.Serializer[ScheduleLine]):
    """Schedule of a job."""

    job = serializers.IntegerField(source="id")
    name = serializers.CharField()
    status = serializers.CharField()
    start_method = serializers.ChoiceField(
        [method.value for method in StartMethod],
        source="method",
        help_text="`window_begin` skips a window that opens during a run. `window_inside` starts again inside of it.",
    )
    windows = serializers.SerializerMethodField(help_text="The windows in words.")
    coming = serializers.SerializerMethodField(help_text="The next five openings, also while it is paused.")
    skipped = SkippedSerializer(many=True, help_text="Windows that started no run, at most one for each reason.")
    paused_at = serializers.DateTimeField(allow_null=True)
    paused_by = serializers.CharField()

    def get_windows(self, line: ScheduleLine) -> list[str]:
        return [window_in_words(window) for window in line.windows]

    def get_coming(self, line: ScheduleLine) -> list[dt.datetime]:
        return [opening for opening, _window in line.coming]


class SchedulesSerializer(serializers.Serializer[Any]):
    """Schedules, the next start first; paused ones come last."""

    results = ScheduleSerializer(many=True)
    is_complete = serializers.BooleanField(
        help_text="False if there are more: only the 200 schedules that are checked next are listed."
    )


class CalendarQuery(StrictSerializer):
    """Parameters of the calendar: its first day, in UTC, and its number of days."""

    first = serializers.DateField(help_text="The first day.")
    days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, default=7)

    def validate_first(self, first: dt.date) -> dt.date:
        if not FIRST_DAY <= first <= LAST_DAY:
            raise serializers.ValidationError("Choose a day of the years 2000 to 2198.")
        return first


class StartedRunSerializer(serializers.Serializer[object]):
    """Run that started on a day."""

    id = serializers.IntegerField()
    job = serializers.IntegerField(source="job_id")
    name = serializers.CharField(source="job_name")
    run_no = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    run_end = serializers.CharField(help_text="Empty while the run lasts.")


class ComingStartSerializer(serializers.Serializer[object]):
    """First start of a job on a future day."""

    job = serializers.IntegerField(source="job_id")
    name = serializers.CharField(source="job_name")
    at = serializers.DateTimeField()
    starts = serializers.IntegerField(help_text="Starts of the job on this day.")


class CalendarDaySerializer(serializers.Serializer[object]):
    """Day: its newest 100 runs, and its first 100 future starts."""

    date = serializers.DateField()
    runs = StartedRunSerializer(many=True)
    more_runs = serializers.BooleanField()
    starts = ComingStartSerializer(many=True)
    more_starts = serializers.IntegerField(help_text="Jobs that also start on this day.")


class CalendarSerializer(serializers.Serializer[Any]):
    """Days with their runs and starts."""

    days = CalendarDaySerializer(many=True)
    is_complete = serializers.BooleanField(
        help_text="False if there are more starts: the 200 schedules that are checked next count, with 62 starts each."
    )


class SchedulesView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_job"}

    @extend_schema(
        operation_id="schedules_list",
        description="List the schedules of all jobs with their next five starts and skipped windows.",
        responses=SchedulesSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        found = list_schedules(now=read_clock())
        return Response(SchedulesSerializer({"results": found.lines, "is_complete": not found.has_more}).data)


class CalendarView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_job"}

    @extend_schema(
        operation_id="schedules_calendar",
        description="Return the runs that started on each of some days, and the starts to come.",
        parameters=[CalendarQuery],
        responses=CalendarSerializer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(CalendarQuery, request)
        found = read_calendar(query["first"], days=query["days"], shown=_SHOWN, now=read_clock())
        return Response(CalendarSerializer(found).data)
