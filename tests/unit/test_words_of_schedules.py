"""Proves that the start of a window is shown with the words and the word order of each language."""

import datetime as dt

import pytest

from crawlctl.languages import speaking
from jobs.lifecycle.schedule import Window
from jobs.words.schedules import show_opening


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", "Mon 2 Dec 2030 22:00 Europe/Berlin"),
        ("de", "Mo, 2. Dez. 2030 22:00 Europe/Berlin"),
        ("zh-hans", "2030年12月2日 星期一 22:00 Europe/Berlin"),
    ],
)
def test_an_opening_is_shown_in_each_language(language, shown):
    opening = dt.datetime(2030, 12, 2, 21, tzinfo=dt.UTC)

    with speaking(language):
        assert show_opening(opening, Window(time_zone="Europe/Berlin")) == shown
