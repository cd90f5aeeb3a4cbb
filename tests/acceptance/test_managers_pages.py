"""Managers that serve the pages themselves: any of them answers everything, and its web part may die."""

import json
import signal
import socket
import urllib.error
import urllib.request

import psutil
import pytest

from tests.api import token_client_of
from tests.processes import QUICK_HEARTS, wait_for


def start(machine, address="127.0.0.1:0", **environment):
    """Start a manager that serves pages; returns it and where, once it answers."""
    manager = machine.start("runmanager", "--http", address, **(QUICK_HEARTS | environment))
    url = wait_for(lambda: manager.has_ended or manager.out.strip(), saying="it says where its pages are")
    wait_for(lambda: status(f"{url}/login/") == 200, saying="its pages are there")
    return manager, url


def status(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def web_parts(manager):
    children = psutil.Process(manager.pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE and "serve" in child.cmdline()]


def test_any_manager_answers_everything_and_all_are_shown_with_their_addresses(machine, cluster):
    (first, at_first), (second, at_second) = start(machine), start(machine)
    wait_for(lambda: cluster.node_of(second).status == "running", saying="both work")
    token = token_client_of("viewer")._credentials["HTTP_AUTHORIZATION"]

    for url in (at_first, at_second):
        request = urllib.request.Request(f"{url}/api/v1/nodes/", headers={"Authorization": token})
        with urllib.request.urlopen(request, timeout=30) as answer:
            nodes = json.load(answer)["results"]

        assert {node["address"] for node in nodes} == {at_first, at_second}
        assert {node["pid"] for node in nodes} == {first.pid, second.pid}


def test_a_web_part_that_dies_is_said_and_started_again_and_the_manager_goes_on(machine, cluster):
    manager, url = start(machine)
    (web_part,) = web_parts(manager)

    web_part.kill()
    wait_for(lambda: [web_part] != web_parts(manager) != [], saying="there is another one")
    wait_for(lambda: status(f"{url}/login/") == 200, saying="its pages are there again")

    assert "web-server was ended by SIGKILL; it is started again" in manager.err
    assert not manager.has_ended
    assert cluster.node_of(manager).status == "running"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_web_part_ends_with_its_manager_however_that_ends(machine, number):
    manager, url = start(machine)
    (web_part,) = web_parts(manager)

    manager.send(number)

    assert manager.wait() == (0 if number == signal.SIGTERM else -number)
    wait_for(lambda: not web_part.is_running() or web_part.status() == "zombie", saying="it has ended")
    assert status(f"{url}/login/") == 0


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("8000", "'8000' is no address: write HOST:PORT, such as 127.0.0.1:8001 or [::1]:8001."),
        ("127.0.0.1:70000", "'127.0.0.1:70000' is no address"),
        ("http://127.0.0.1:80", "'http://127.0.0.1:80' is no address"),
        ("192.0.2.1:8001", "192.0.2.1:8001: this is not an address of this machine."),
        ("nowhere.invalid:8001", "nowhere.invalid:8001: there is no host 'nowhere.invalid'."),
    ],
)
def test_where_nobody_can_listen_is_said_in_a_sentence(machine, address, sentence):
    manager = machine.start("runmanager", "--http", address)

    assert manager.wait() == 2
    assert f"--http: {sentence}" in manager.err
    assert "Traceback" not in manager.err


def test_a_taken_address_is_said_in_a_sentence_and_no_node_registers(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        manager = machine.start("runmanager", "--http", address)

        assert manager.wait() == 2
    assert f"--http: {address}: this address is taken by another process." in manager.err
    assert machine.database.value("SELECT count(*) FROM nodes_node") == 0


def test_pages_answer_under_the_address_that_they_listen_at(machine):
    _manager, url = start(machine, "127.0.0.2:0")

    assert status(f"{url}/login/") == 200
    assert status(f"{url}/login/", Host="elsewhere.test") == 400
