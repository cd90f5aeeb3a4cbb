"""Proves that time zones made for the chaos test are read like those of a system."""

import datetime as dt
import zoneinfo

import pytest

from jobs.lifecycle.schedule import Window
from tests.chaos.zones import write_zone

AT_TWO = dt.datetime(2030, 3, 10, 2, 0, tzinfo=dt.UTC)


@pytest.fixture
def night(tmp_path):
    """Return a zone at UTC. Its clocks go back an hour at 03:00, and 90 minutes later they go forward two hours."""
    back = AT_TWO.timestamp() + 3600
    path = tmp_path / "Chaos" / "Night"
    write_zone(path, usual=0, changes=[(int(back), -3600), (int(back) + 5400, 3600)])
    zoneinfo.reset_tzpath([str(tmp_path)])
    yield "Chaos/Night"
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache(only_keys=["Chaos/Night"])


def test_windows_open_twice_in_repeated_hours_and_never_in_skipped_hours(night):
    windows = [Window(hours=(hour,), minutes=(30,), time_zone=night) for hour in (2, 3, 4)]

    openings = [list(window.openings(after=AT_TWO, until=AT_TWO + dt.timedelta(hours=6))) for window in windows]

    minutes = [[(opening - AT_TWO) / dt.timedelta(minutes=1) for opening in of_window] for of_window in openings]
    assert minutes == [[30, 90], [], []]
