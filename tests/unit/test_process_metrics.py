"""Proves that Prometheus gets all counts, levels and distributions of a process."""

import threading

import pytest

from nodes.metrics.kinds import Counter, Gauge, Histogram, Process
from nodes.metrics.prometheus import registry_of, render
from tests.support.metrics import parse

OF_WORKERS = {"meaning": "As it says.", "shown_by": frozenset({Process.WORKER})}


def read(*figures, refresh=lambda: None):
    return parse(render(registry_of(figures, refresh=refresh))[0].decode())


def test_counts_without_labels_start_at_zero_and_others_as_declared():
    plain = Counter(name="eggs_total", **OF_WORKERS)
    labelled = Counter(name="hens_total", labels=("colour",), from_zero=(("brown",),), **OF_WORKERS)

    labelled.add(2, "white")

    assert {
        ("eggs_total",): 0,
        ("hens_total", "brown"): 0,
        ("hens_total", "white"): 2,
    }.items() <= read(plain, labelled).items()


def test_counts_of_many_threads_are_complete():
    count = Counter(name="eggs_total", **OF_WORKERS)
    threads = [threading.Thread(target=lambda: [count.add() for _ in range(2_000)]) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(count)["eggs_total",] == 16_000


def test_a_gauge_is_shown_after_its_first_value_and_removed_with_it():
    level = Gauge(name="nests", labels=("tree",), **OF_WORKERS)
    assert not [key for key in read(level) if key[0] == "nests"]

    level.set_all({("oak",): 3, ("elm",): 1})
    level.set_all({("oak",): 4})

    assert {key: amount for key, amount in read(level).items() if key[0] == "nests"} == {("nests", "oak"): 4}


def test_a_gauge_with_a_source_reads_the_source_at_each_scrape():
    amounts = iter((1.5, 2.5))
    level = Gauge(name="age_seconds", **OF_WORKERS)
    level.follow(lambda: next(amounts))
    registry = registry_of((level,))

    read_twice = [parse(render(registry)[0].decode())["age_seconds",] for _ in range(2)]

    assert read_twice == [1.5, 2.5]


def test_a_gauge_reads_one_source_for_each_of_its_labels():
    level = Gauge(name="is_there", labels=("who",), **OF_WORKERS)
    level.follow(lambda: True, "ann")
    level.follow(lambda: False, "bob")

    shown = read(level)
    assert (shown["is_there", "ann"], shown["is_there", "bob"]) == (1, 0)


def test_a_histogram_counts_values_up_to_each_bound():
    spread = Histogram(name="wait_seconds", bounds=(0.1, 1.0), **OF_WORKERS)

    spread.observe_all((0.05, 0.1, 0.5, 7))

    shown = read(spread)
    assert [shown["wait_seconds_bucket", bound] for bound in ("0.1", "1.0", "+Inf")] == [2, 3, 4]
    assert shown["wait_seconds_count",] == 4
    assert shown["wait_seconds_sum",] == pytest.approx(7.65)


def test_wrong_labels_raise_an_error():
    with pytest.raises(TypeError, match="hens_total has the labels"):
        Counter(name="hens_total", labels=("colour",), **OF_WORKERS).add(1)


def test_statistics_are_refreshed_before_they_are_read():
    level = Gauge(name="nests", **OF_WORKERS)

    assert read(level, refresh=lambda: level.set(7))["nests",] == 7
