"""Proves that the proxy of the tests cuts, slows and kills connections as documented."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.support.proxy import Direction, Proxy
from tests.support.waiting import wait_until


@pytest.fixture
def proxy(dsn):
    with Proxy.of_database(dsn) as running:
        yield running


@pytest.fixture
def through(proxy, dsn):
    """Yield a function that runs a query in a thread, on a connection through the proxy."""
    with psycopg.connect(proxy.dsn(dsn), autocommit=True) as opened, ThreadPoolExecutor(1) as thread:
        yield lambda query: thread.submit(lambda: opened.execute(query).fetchone())
        proxy.heal()


def count(connection, name):
    return connection.execute("SELECT count(*) FROM nodes_mainterm WHERE scope = %s", [name]).fetchone()[0]


def hangs(future):
    """True if the call is still running after a time in which faster calls end."""
    time.sleep(0.2)
    return not future.done()


def test_the_proxy_forwards_to_the_database_and_counts_connections(proxy, through):
    assert through("SELECT 'là'").result(10) == ("là",)
    assert proxy.connections == 1


def test_a_connection_through_a_cut_proxy_hangs_until_the_proxy_heals(proxy, through):
    proxy.cut()
    future = through("SELECT 1")
    assert hangs(future)

    proxy.heal()

    assert future.result(10) == (1,)


def test_a_slow_proxy_delays_both_directions_until_the_proxy_heals(proxy, through):
    through("SELECT 1").result(10)
    proxy.delay(0.15)
    began_at = time.monotonic()

    assert through("SELECT 1").result(10) == (1,)
    assert time.monotonic() - began_at >= 0.3

    proxy.heal()
    began_at = time.monotonic()
    assert through("SELECT 1").result(10) == (1,)
    assert time.monotonic() - began_at < 0.3


def test_a_new_connection_through_a_cut_proxy_also_hangs(proxy, dsn):
    proxy.cut()

    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(proxy.dsn(dsn), connect_timeout=2)

    proxy.heal()
    psycopg.connect(proxy.dsn(dsn)).close()


def test_a_cut_proxy_can_refuse_new_connections_and_keeps_its_port(proxy, through, dsn):
    proxy.cut(refuses=True)

    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(proxy.dsn(dsn))
    assert hangs(asked := through("SELECT 1"))

    proxy.heal()

    assert asked.result(10) == (1,)
    psycopg.connect(proxy.dsn(dsn)).close()


def test_the_server_still_works_if_only_its_answers_are_cut(proxy, through, connection):
    proxy.cut(Direction.ANSWERED)

    future = through("INSERT INTO nodes_mainterm (scope, since) VALUES ('one-way', now()) RETURNING scope")

    wait_until(lambda: count(connection, "one-way") == 1)
    assert hangs(future)


def test_the_server_receives_nothing_if_only_requests_are_cut(proxy, through, connection):
    proxy.cut(Direction.ASKED)

    future = through("INSERT INTO nodes_mainterm (scope, since) VALUES ('one-way', now()) RETURNING scope")

    assert hangs(future)
    assert count(connection, "one-way") == 0


def test_killing_the_connections_of_a_proxy_still_accepts_new_connections(proxy, through, dsn):
    assert through("SELECT 1").result(10) == (1,)

    assert proxy.kill() == 1

    with pytest.raises(psycopg.OperationalError):
        through("SELECT 1").result(10)
    psycopg.connect(proxy.dsn(dsn)).close()


def test_killing_ends_a_hanging_process_and_loses_its_requests(proxy, through, connection):
    proxy.cut()
    future = through("INSERT INTO nodes_mainterm (scope, since) VALUES ('lost', now()) RETURNING scope")
    assert hangs(future)

    proxy.kill()
    proxy.heal()

    with pytest.raises(psycopg.OperationalError):
        future.result(10)
    assert count(connection, "lost") == 0


def test_a_commit_whose_answer_is_lost_is_done_and_its_client_cannot_know(proxy, dsn, connection):
    lost = proxy.lose_answer(b"COMMIT")

    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(proxy.dsn(dsn), autocommit=True) as client,
        client.transaction(),
    ):
        client.execute("INSERT INTO nodes_mainterm (scope, since) VALUES ('committed', now())")

    assert lost.done()
    assert count(connection, "committed") == 1
    with psycopg.connect(proxy.dsn(dsn)) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_the_proxy_rewrites_a_statement(proxy, through):
    proxy.rewrite(b"SELECT 'one'", b"SELECT 'two'")

    assert through("SELECT 'one'").result(10) == ("two",)


def test_the_proxy_serves_a_web_site_as_well():
    with socket.create_server(("127.0.0.1", 0)) as site, Proxy(site.getsockname()) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        served, _ = site.accept()

        client.sendall(b"ping")
        client.shutdown(socket.SHUT_WR)

        assert served.recv(9) == b"ping"
        assert served.recv(9) == b""
        served.sendall(b"pong")
        served.close()
        assert client.recv(9) == b"pong"
        assert client.recv(9) == b""
        client.close()
