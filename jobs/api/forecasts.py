"""The forecast of the end of a run in the API."""

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from jobs.queries.jobs.forecast import RunForecast, WhatIf, read_forecast
from jobs.queries.jobs.hosts import queues_of
from jobs.queries.jobs.lines import read_job_line
from jobs.queries.jobs.parts import read_hosts_everywhere
from nodes.api.strict import StrictSerializer
from nodes.database.clock import read_clock
from nodes.errors import Unknown

# Least and greatest factor by which a client may multiply the workers or the rate in a forecast.
_LEAST: Final = 0.01
_MOST: Final = 1_000.0


class ForecastQuery(StrictSerializer):
    """Changes that a forecast assumes."""

    workers = serializers.FloatField(
        default=1.0, min_value=_LEAST, max_value=_MOST, help_text="Factor of the number of workers."
    )
    rate = serializers.FloatField(
        default=1.0, min_value=_LEAST, max_value=_MOST, help_text="Factor of the rates that hosts allow."
    )
    opens = serializers.TimeField(required=False, help_text="Start of a daily window (UTC).")
    closes = serializers.TimeField(required=False, help_text="End of the daily window (UTC).")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        missing = {"opens", "closes"} - set(values)
        if len(missing) == 1:
            raise serializers.ValidationError({missing.pop(): ["A window needs both `opens` and `closes`."]})
        if not missing and values["opens"] == values["closes"]:
            raise serializers.ValidationError({"closes": ["A window must not end when it opens."]})
        return values


class ForecastSerializer(serializers.Serializer[Any]):
    """Likely end of a run. It is between `soonest` and `latest` in 80 % of all crawls."""

    likely = serializers.DateTimeField(allow_null=True)
    soonest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    hosts_are_the_limit = serializers.BooleanField(allow_null=True, help_text="True if the hosts set the pace.")
    more_workers_are_a_gain = serializers.BooleanField(
        allow_null=True, help_text="True if twice the workers end the run noticeably sooner."
    )
    found = serializers.IntegerField(
        allow_null=True, help_text="Likely number of documents that are still to be found."
    )


def read_forecast_of(job_id: int, query: Mapping[str, Any]) -> RunForecast | dict[str, None]:
    """
    Return the forecast of a job's run. If there is no forecast, its fields are None.

    Raises:
        Unknown: the job does not exist.
    """
    now = read_clock()
    job = read_job_line(job_id, now=now)
    if job is None:
        raise Unknown("job", job_id)
    window = (query["opens"], query["closes"]) if "opens" in query else None
    supposed = WhatIf(query["workers"], query["rate"], window)
    found = read_forecast(job, queues_of(read_hosts_everywhere(job, now=now)), now=now, supposed=supposed)
    return found or dict.fromkeys(ForecastSerializer().fields)
