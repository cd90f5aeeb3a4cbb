"""
Proves that a stop of a host makes its documents wait, and a denial ends them. Without a port, both apply to every port.
"""

import pytest

from jobs.connectors.repository.web.kind import HOSTS
from jobs.models import Bin, DenialReason
from jobs.queries.hosts.lines import read_host_statuses
from jobs.queue.discover import open_lanes
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from jobs.verbs import deny_list
from jobs.verbs import hosts as bins
from jobs.verbs.hosts import HostsUnknown
from jobs.verdicts.causes import Cause
from nodes.errors import Invalid, Refused
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_running_job
from tests.support.tables import each_row

HOST = "news.example"
PORTS = [HOST, f"{HOST}:8080", f"{HOST}:9090"]
OTHERS = ["old.news.example", "news.example.org", "news.example.org:8080"]


@pytest.fixture
def hosts(connection):
    return [make_bin(name) for name in (*PORTS, *OTHERS)]


def stop(name, **facts):
    return bins.stop_named(name, reason="they called", made_by="ada", now=NOON, **facts)


def deny(pattern, **facts):
    deny_list.deny(pattern, reason="they called", made_by="ada", now=NOON, **facts)


def stopped():
    return sorted(Bin.objects.filter(stopped_at__isnull=False).values_list("name", flat=True))


def denied():
    lines = read_host_statuses(list(Bin.objects.values_list("pk", flat=True)), now=NOON)
    return sorted(line.name for line in lines if line.verdict.cause == Cause.DENIED)


@pytest.mark.parametrize("typed", [HOST, f"http://{HOST}/a/page"])
def test_a_host_that_is_named_without_a_port_is_stopped_at_every_port(hosts, typed):
    stop(typed)

    assert stopped() == sorted(PORTS)


def test_a_host_that_is_named_with_a_port_is_stopped_only_at_this_port(hosts):
    stop(f"{HOST}:8080")

    assert stopped() == [f"{HOST}:8080"]


def test_a_bin_of_another_connector_is_stopped_without_the_hosts_of_its_name(hosts):
    archive = make_bin(HOST, namespace="archive")

    bins.stop(archive.pk, reason="they called", made_by="ada", now=NOON)

    archive.refresh_from_db()
    assert archive.stopped_by == "ada"
    assert stopped() == [HOST]
    assert not Bin.objects.filter(namespace="web").exclude(stopped_at=None).exists()


def test_a_stop_holds_for_ports_that_a_crawl_reaches_later(connection, manager, hosts):
    stop(HOST)
    seed = make_running_job(manager).seed

    open_lanes(connection, bins=HOSTS, wanted=[(seed.pk, f"{HOST}:7070"), (seed.pk, "other.example:7070")])

    assert f"{HOST}:7070" in stopped()
    assert "other.example:7070" not in stopped()


def test_all_ports_that_were_stopped_together_are_released_together(hosts):
    bins.stop(Bin.objects.get(name=PORTS[1]).pk, reason="an earlier one", made_by="bob", now=NOON.replace(year=2020))
    bare = stop(HOST)
    assert stopped() == sorted(PORTS)

    bins.release(bare.pk, made_by="ada", now=NOON)

    assert stopped() == [PORTS[1]]


@pytest.mark.parametrize("pattern", [HOST, HOST.upper()])
def test_a_host_that_is_named_without_a_port_is_denied_at_every_port(hosts, pattern):
    deny(pattern)

    assert denied() == sorted(PORTS)
    assert [denial.pattern.lower() for denial in deny_list.denials()] == [HOST]


def test_a_pattern_without_a_port_is_denied_at_every_port(connection):
    make_bin("a.example.org:8080")

    deny("*.example.org")

    assert denied() == ["a.example.org:8080"]


def test_an_ip_address_is_denied_at_every_port(connection):
    make_bin("127.0.0.1:8390")

    deny("127.0.0.1")

    assert denied() == ["127.0.0.1:8390"]


def test_a_denial_is_removed_for_every_port(hosts):
    deny(HOST)

    deny_list.allow_everywhere(HOST, made_by="ada")

    assert (denied(), deny_list.denials()) == ([], [])
    assert not DenialReason.objects.exists()


@pytest.mark.parametrize("name", ["new.example", f"{HOST}:1"])
def test_a_host_that_no_crawl_has_reached_needs_confirmation(hosts, name):
    for action in (stop, deny):
        with pytest.raises(HostsUnknown, match="Check the name"):
            action(name)
    assert (stopped(), deny_list.denials()) == ([], [])

    stop(name, confirm=True)
    deny(name, confirm=True)

    assert stopped() == [name]
    assert [denial.pattern for denial in deny_list.denials()] == [name]


@each_row("reason", [" ", "they called\0"])
def test_a_stop_and_a_denial_need_a_reason(hosts, reason):
    for action in (bins.stop_named, deny_list.deny):
        with pytest.raises(Invalid, match="Write a reason"):
            action(HOST, reason=reason, made_by="ada", now=NOON)

    assert (stopped(), deny_list.denials()) == ([], [])


def test_a_stop_that_adds_nothing_is_refused(hosts):
    stop(HOST)

    with pytest.raises(Refused, match="already stopped by ada: they called"):
        stop(HOST)


def test_documents_of_a_stopped_host_wait_until_its_release(connection, manager):
    running = make_running_job(manager, policy=make_policy())
    lane = make_lane(running.seed, HOST)
    make_documents(lane, ["a", "b"])
    worker = register_node(connection, "worker")
    stop(HOST)

    def handed_out():
        stuff(connection, manager=manager.id, group=running.group, room=1000, workers=1, now=NOON)
        turns = take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
        return [(turn.bin, turn.is_denied) for turn in turns]

    assert handed_out() == []
    bins.release(lane.bin_id, made_by="ada", now=NOON)
    assert handed_out() == [(HOST, False)]


def test_documents_of_a_host_that_is_stopped_and_denied_end(connection, manager):
    running = make_running_job(manager, policy=make_policy())
    make_documents(make_lane(running.seed, HOST), ["a", "b"])
    worker = register_node(connection, "worker")
    stop(HOST)
    deny(HOST)

    stuff(connection, manager=manager.id, group=running.group, room=1000, workers=1, now=NOON)

    (turn,) = take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
    assert turn.is_denied
