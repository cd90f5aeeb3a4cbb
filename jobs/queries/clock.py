"""The database's time: ages and waits on a page are reckoned from it, and what is asked for is dated by it."""

import datetime as dt

from django.db import connection

from jobs.queries.moment import once_a_moment


@once_a_moment
def read_clock() -> dt.datetime:
    """
    Return the database's time, as of this statement.

    Heartbeats, back-offs, fetches and schedules carry it, and the clock of the machine that draws a page, or is asked
    for something, may disagree by hours.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    assert isinstance(now, dt.datetime)
    return now
