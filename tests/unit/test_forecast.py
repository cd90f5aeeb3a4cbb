"""
Proves that the forecast of a run has a band that contains its actual end, and that it knows where more workers help.
"""

import datetime as dt
import math
import random

import pytest

from jobs.verdicts.forecast import Queue, Sample, drain, end_in_window, forecast, is_gain

CRAWLS = 50
DAY = dt.datetime(2030, 5, 17, tzinfo=dt.UTC)


class Site:
    """A host whose pages link to other pages of this host at random. It is read at the rate that it allows."""

    def __init__(self, draw):
        self.pages = round(draw.lognormvariate(6.0, 1.0)) + 5
        self.allowed = draw.choice([0.5, 1.0, 2.0, 4.0])
        self.links = draw.uniform(3, 10)
        self.efficiency = draw.uniform(0.8, 1.0)
        self.known, self.ended = 1.0, 0

    @property
    def waiting(self):
        return int(self.known) - self.ended

    def read(self, draw, amount):
        """Read at most this number of pages. Each page links to some pages that are not known yet."""
        for _page in range(min(amount, self.waiting)):
            self.ended += 1
            unknown = self.pages - self.known
            self.known = min(self.pages, self.known + self.links * unknown / self.pages * draw.uniform(0.5, 1.5))
            if self.ended == int(self.known) < self.pages:
                # The last known page links to at least one unknown page.
                self.known += 1


def crawl(seed):
    """Crawl some sites with some workers. Return the samples, the queues at each sample, and the time of the end."""
    draw = random.Random(seed)
    sites = [Site(draw) for _site in range(draw.randint(1, 20))]
    capacity = draw.choice([2.0, 5.0, 20.0, 100.0])
    owed = [0.0] * len(sites)
    samples, queues, second = [], [], 0
    while any(site.waiting for site in sites):
        if second % 30 == 0:
            samples.append(Sample(second, sum(int(s.known) for s in sites), sum(s.ended for s in sites)))
            queues.append([Queue(s.waiting, s.allowed) for s in sites])
        open_ = [place for place, site in enumerate(sites) if site.waiting]
        whole = sum(sites[place].allowed for place in open_)
        slowed = min(1.0, capacity / whole)
        for place in open_:
            site = sites[place]
            owed[place] += site.allowed * slowed * site.efficiency * draw.uniform(0.6, 1.4)
            amount, owed[place] = int(owed[place]), owed[place] % 1
            site.read(draw, amount)
        second += 1
    return samples, queues, second


def test_the_band_is_right_in_three_of_four_crawls():
    right = judged = 0
    for seed in range(CRAWLS):
        samples, queues, end = crawl(seed)
        at = max(4, round(len(samples) * random.Random(seed).uniform(0.25, 0.8)))
        if at >= len(samples):
            at = len(samples) - 1
        found = forecast(queues[at], samples[max(0, at - 20) : at + 1])
        judged += 1
        left = end - samples[at].seconds
        right += found is not None and found.band.soonest <= left <= found.band.latest
    assert judged == CRAWLS
    assert right >= 0.75 * CRAWLS, f"{right} of {judged}"


def samples_of_steady_crawl(rate, known, *, minutes=10):
    """Return samples of a crawl that finds nothing new."""
    return [Sample(60.0 * minute, known, round(rate * 60 * minute)) for minute in range(minutes + 1)]


def test_twice_the_workers_gain_nothing_if_hosts_are_the_limit():
    queues = [Queue(600, 1.0), Queue(60, 1.0)]
    samples = samples_of_steady_crawl(2.0, 3_000)

    now, more = forecast(queues, samples), forecast(queues, samples, workers=2)
    faster = forecast(queues, samples, rate=2)

    assert now.hosts_are_the_limit
    assert now.band.likely == pytest.approx(600)
    assert not is_gain(now.band, more.band)
    assert is_gain(now.band, faster.band)
    assert faster.band.likely == pytest.approx(300)


def test_twice_the_workers_halve_the_time_if_workers_are_the_limit():
    queues = [Queue(600, 100.0), Queue(600, 100.0)]
    samples = samples_of_steady_crawl(2.0, 3_000)

    now, more = forecast(queues, samples), forecast(queues, samples, workers=2)

    assert not now.hosts_are_the_limit
    assert (now.band.likely, more.band.likely) == (pytest.approx(600), pytest.approx(300))


def test_the_longest_queue_decides_the_end():
    assert drain([100, 10], [1.0, 1.0], capacity=math.inf) == pytest.approx(100)
    assert drain([100, 10], [1.0, 1.0], capacity=1.0) == pytest.approx(110)
    # Each queue gets a fair share of 1 until the small queue is empty. Then the large queue gets its whole rate of 1.5.
    assert drain([100, 10], [1.5, 9.0], capacity=2.0) == pytest.approx(10 + 90 / 1.5)
    assert drain([1], [0.0], capacity=1.0) == math.inf


def test_nothing_is_forecast_without_a_queue_an_open_host_or_progress():
    assert forecast([], samples_of_steady_crawl(1.0, 10)) is None
    assert forecast([Queue(10, 1.0)], samples_of_steady_crawl(0.0, 10)) is None
    assert forecast([Queue(10, 1.0)], samples_of_steady_crawl(1.0, 10)[:1]) is None
    assert forecast([Queue(10, 0.0)], samples_of_steady_crawl(1.0, 10)) is None


def at(hour, day=17):
    return DAY.replace(hour=hour, day=day)


@pytest.mark.parametrize(
    ("opens", "closes", "hours", "end"),
    [
        (8, 18, 1, at(13)),
        (8, 18, 8, at(10, 18)),
        (22, 6, 1, at(23)),
        (22, 6, 9, at(23, 18)),
        (14, 16, 3, at(15, 18)),
    ],
)
def test_a_forecast_counts_only_time_within_the_window_of_the_job(opens, closes, hours, end):
    assert end_in_window(at(12), hours * 3600, opens=dt.time(opens), closes=dt.time(closes)) == end
