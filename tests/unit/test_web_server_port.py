"""Proves that the web server uses the given port. Without one, it uses the first free port."""

import socket

import pytest

from crawlctl.web.sockets import BadAddress, listen_on


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_given_port_that_is_in_use_is_refused_with_a_reason(taken):
    with pytest.raises(BadAddress) as refused:
        listen_on(taken, host="127.0.0.1", first=1)

    assert str(refused.value) == f"127.0.0.1:{taken}: this address is taken by another process."


def test_without_a_given_port_the_first_free_port_is_used(taken):
    with listen_on(None, host="127.0.0.1", first=taken) as listener:
        assert listener.getsockname()[1] > taken
