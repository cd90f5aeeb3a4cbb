"""The database's time. Pages compute ages and waits from it, and requests store it as their time."""

import datetime as dt

from django.db import connection

from nodes.database.shared_results import cached_in_moment


@cached_in_moment
def read_clock() -> dt.datetime:
    """
    Return the database's time, as of this statement.

    Heartbeats, back-offs, fetches and schedules use it. The clock of the machine that draws a page, or takes a
    request, may differ by hours.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    assert isinstance(now, dt.datetime)
    return now
