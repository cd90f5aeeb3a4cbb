"""Proves that every manager can serve all pages, and that a cluster survives the death of a manager's web server."""

import json
import signal
import socket
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from urllib.parse import urlencode

import psutil
import pytest

from jobs.models import Job
from tests.support.api import PASSWORD, make_user, token_client_of
from tests.support.factories import make_job
from tests.support.processes import QUICK_HEARTBEATS, wait_for

# Pages and lists without a number in their address, one of each kind.
PATHS = (
    *("/", "/documents/", "/hosts/", "/hosts/denied/", "/nodes/", "/cluster/", "/cluster/jobs/", "/jobs/deleted/"),
    *("/settings/", "/reports/", "/reports/history/", "/search/", "/admin/", "/admin/jobs/job/add/"),
    *(
        f"/api/v1/{name}/"
        for name in (
            *("attention", "cluster/requests", "deny-list", "documents", "groups", "hosts", "job-events", "jobs"),
            *("node-events", "nodes", "outputs", "policies", "repositories", "seeds", "settings", "settings/versions"),
        )
    ),
)


def start(machine, address="127.0.0.1:0", **environment):
    """Start a manager that serves pages. Return the manager and its address, once its pages answer."""
    manager = machine.start("runmanager", "--http", address, **(QUICK_HEARTBEATS | environment))
    url = wait_for(
        lambda: manager.has_ended or manager.out.strip(), saying="the manager prints the address of its pages"
    )
    wait_for(lambda: status(f"{url}/login/") == 200, saying="the manager serves its pages")
    return manager, url


def status(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def cookie_value(jar, name):
    (value,) = (cookie.value for cookie in jar if cookie.name == name)
    return value


def web_servers_of(manager):
    children = psutil.Process(manager.pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE and "serve" in child.cmdline()]


def test_each_manager_serves_all_pages_and_lists_all_managers(machine, cluster):
    (first, at_first), (second, at_second) = start(machine), start(machine)
    wait_for(lambda: cluster.node_of(second).status == "running", saying="both managers run")
    token = token_client_of("viewer")._credentials["HTTP_AUTHORIZATION"]

    for url in (at_first, at_second):
        request = urllib.request.Request(f"{url}/api/v1/nodes/", headers={"Authorization": token})
        with urllib.request.urlopen(request, timeout=30) as answer:
            nodes = json.load(answer)["results"]

        assert {node["address"] for node in nodes} == {at_first, at_second}
        assert {node["pid"] for node in nodes} == {first.pid, second.pid}


def test_one_login_is_valid_for_all_pages_of_all_managers(machine, cluster):
    managers = [start(machine), start(machine)]
    wait_for(
        lambda: all(cluster.node_of(manager).status == "running" for manager, _ in managers), saying="both managers run"
    )
    opener, at_first = (
        urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar := CookieJar())),
        managers[0][1],
    )
    make_user("administrator", name="ada", password=PASSWORD)
    opener.open(f"{at_first}/login/", timeout=30).close()
    form = {"username": "ada", "password": PASSWORD, "csrfmiddlewaretoken": cookie_value(jar, "csrftoken")}
    request = urllib.request.Request(f"{at_first}/login/", urlencode(form).encode(), {"Referer": f"{at_first}/login/"})
    opener.open(request, timeout=30).close()
    session = "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)

    answers = [{path: status(f"{url}{path}", Cookie=session) for path in PATHS} for _, url in managers]

    assert answers[0] == answers[1] == dict.fromkeys(PATHS, 200)


def test_pages_of_a_manager_that_is_not_main_accept_requests(machine, cluster):
    managers = dict([start(machine), start(machine)])
    main = cluster.main(*managers)
    (other,) = managers.keys() - {main}
    job = make_job(urls=["http://127.0.0.1:9/"])
    token = token_client_of("operator")._credentials["HTTP_AUTHORIZATION"]

    for verb, phase in (("start", "active"), ("abort", "inactive")):
        order = urllib.request.Request(
            f"{managers[other]}/api/v1/jobs/{job.pk}/{verb}/", b"", {"Authorization": token}, method="POST"
        )
        assert urllib.request.urlopen(order, timeout=30).status == 200
        wait_for(lambda phase=phase: Job.objects.get(pk=job.pk).phase == phase, saying=f"the job is {phase}")


def test_a_dead_web_server_is_reported_and_restarted_by_its_manager(machine, cluster):
    manager, url = start(machine)
    (web_server,) = web_servers_of(manager)

    web_server.kill()
    wait_for(lambda: [web_server] != web_servers_of(manager) != [], saying="another web server runs")
    wait_for(lambda: status(f"{url}/login/") == 200, saying="the manager serves its pages again")

    assert "web-server was ended by SIGKILL; it is started again" in manager.err
    assert not manager.has_ended
    assert cluster.node_of(manager).status == "running"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_web_server_always_ends_with_its_manager(machine, number):
    manager, url = start(machine)
    (web_server,) = web_servers_of(manager)

    manager.send(number)

    assert manager.wait() == (0 if number == signal.SIGTERM else -number)
    wait_for(lambda: not web_server.is_running() or web_server.status() == "zombie", saying="the web server has ended")
    assert status(f"{url}/login/") == 0


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("8000", "'8000' is not a listen address. Write HOST:PORT, such as 127.0.0.1:8001 or [::1]:8001."),
        ("127.0.0.1:70000", "'127.0.0.1:70000' is not a listen address"),
        ("http://127.0.0.1:80", "'http://127.0.0.1:80' is not a listen address"),
        ("192.0.2.1:8001", "192.0.2.1:8001: this is not an address of this machine."),
        ("nowhere.invalid:8001", "nowhere.invalid:8001: there is no host 'nowhere.invalid'."),
    ],
)
def test_an_unusable_address_to_listen_on_is_reported_with_a_reason(machine, address, sentence):
    manager = machine.start("runmanager", "--http", address)

    assert manager.wait() == 2
    assert f"--http: {sentence}" in manager.err
    assert "Traceback" not in manager.err


def test_an_address_in_use_is_reported_and_no_node_registers(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        manager = machine.start("runmanager", "--http", address)

        assert manager.wait() == 2
    assert f"--http: {address}: this address is taken by another process." in manager.err
    assert machine.database.value("SELECT count(*) FROM nodes_node") == 0


def test_pages_accept_requests_for_the_address_at_which_they_listen(machine):
    _manager, url = start(machine, "127.0.0.2:0")

    assert status(f"{url}/login/") == 200
    assert status(f"{url}/login/", Host="elsewhere.test") == 400
