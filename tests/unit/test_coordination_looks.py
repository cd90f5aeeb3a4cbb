"""Proves that requests to a process share what it reads from a coordination store, at a limited cost."""

import pytest

from nodes.coordination.port import Unreachable
from nodes.distributed.store_views import SharedLooks


class Store:
    """A store with its own clock, on which each read takes `takes` seconds."""

    def __init__(self, *, takes):
        self.takes, self.now, self.looks, self.is_away = takes, 0.0, 0, False

    def look(self, cluster, *, dsn):
        self.looks += 1
        self.now += self.takes
        if self.is_away:
            raise Unreachable("it does not answer")
        return f"{cluster}, look {self.looks}"


@pytest.fixture
def zookeeper(settings):
    settings.CRAWLCTL_COORDINATION, settings.CRAWLCTL_ZOOKEEPER = "ZOOKEEPER", "127.0.0.1:2181"


def looks_at(store):
    shared = SharedLooks(store.look, clock=lambda: store.now)
    return lambda cluster="jobs": shared.look_at(cluster, dsn="")


@pytest.mark.usefixtures("zookeeper")
def test_many_viewers_keep_zookeeper_busy_for_at_most_5_percent_of_time():
    store = Store(takes=0.1)
    look = looks_at(store)

    seen = {look()}
    store.now += 1.9
    seen.add(look())
    assert seen == {"jobs, look 1"}

    store.now += 0.2
    assert look() == "jobs, look 2"


@pytest.mark.usefixtures("zookeeper")
def test_the_answer_of_one_cluster_is_not_reused_for_another():
    look = looks_at(Store(takes=0.1))

    assert (look("jobs"), look("others"), look("jobs")) == ("jobs, look 1", "others, look 2", "jobs, look 1")


@pytest.mark.usefixtures("zookeeper")
def test_one_request_waits_for_a_silent_store_and_a_later_one_tries_again():
    store = Store(takes=5.0)
    store.is_away = True
    look = looks_at(store)
    for _viewer in range(3):
        with pytest.raises(Unreachable, match="it does not answer"):
            look()
    assert store.looks == 1

    store.is_away = False
    store.now += 10.1

    assert look() == "jobs, look 2"


def test_a_store_in_the_database_is_read_for_each_request(settings):
    settings.CRAWLCTL_COORDINATION = "DATABASE"
    look = looks_at(Store(takes=0.1))

    assert (look(), look()) == ("jobs, look 1", "jobs, look 2")
