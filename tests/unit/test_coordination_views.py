"""Proves that requests to a process share what it reads from a coordination store, at a limited cost."""

import pytest

from nodes.coordination.port import Unreachable
from nodes.distributed.store_views import SharedViews


class Store:
    """A store with its own clock, on which each read takes `takes` seconds."""

    def __init__(self, *, takes):
        self.takes, self.now, self.reads, self.is_away = takes, 0.0, 0, False

    def read(self, cluster, *, dsn):
        self.reads += 1
        self.now += self.takes
        if self.is_away:
            raise Unreachable("it does not answer")
        return f"{cluster}, read {self.reads}"


@pytest.fixture
def zookeeper(settings):
    settings.CRAWLCTL_COORDINATION, settings.CRAWLCTL_ZOOKEEPER = "ZOOKEEPER", "127.0.0.1:2181"


def reader_of(store):
    shared = SharedViews(store.read, clock=lambda: store.now)
    return lambda cluster="jobs": shared.read(cluster, dsn="")


@pytest.mark.usefixtures("zookeeper")
def test_many_viewers_keep_zookeeper_busy_for_at_most_5_percent_of_time():
    store = Store(takes=0.1)
    read = reader_of(store)

    seen = {read()}
    store.now += 1.9
    seen.add(read())
    assert seen == {"jobs, read 1"}

    store.now += 0.2
    assert read() == "jobs, read 2"


@pytest.mark.usefixtures("zookeeper")
def test_the_answer_of_one_cluster_is_not_reused_for_another():
    read = reader_of(Store(takes=0.1))

    assert (read("jobs"), read("others"), read("jobs")) == ("jobs, read 1", "others, read 2", "jobs, read 1")


@pytest.mark.usefixtures("zookeeper")
def test_one_request_waits_for_a_silent_store_and_a_later_one_tries_again():
    store = Store(takes=5.0)
    store.is_away = True
    read = reader_of(store)
    for _viewer in range(3):
        with pytest.raises(Unreachable, match="it does not answer"):
            read()
    assert store.reads == 1

    store.is_away = False
    store.now += 10.1

    assert read() == "jobs, read 2"


def test_a_store_in_the_database_is_read_for_each_request(settings):
    settings.CRAWLCTL_COORDINATION = "DATABASE"
    read = reader_of(Store(takes=0.1))

    assert (read(), read()) == ("jobs, read 1", "jobs, read 2")
