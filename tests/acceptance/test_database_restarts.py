"""Proves that all processes continue by themselves after a restart of the database server during a crawl."""

import json
import signal
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from urllib.parse import urlencode

import pytest

from tests.support.debian import debian_server
from tests.support.processes import Database, Machine, ended, held_by, wait_for

PASSWORD = "a long pass phrase for tests"


class Browser:
    """A client of the pages and the API, logged in as administrator."""

    def __init__(self, address):
        self.address, self._cookies = address, CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))

    def ask(self, path, body=None, **headers):
        """Return (status, text)."""
        request = urllib.request.Request(self.address + path, data=body, headers={"Accept": "*/*", **headers})
        try:
            with self._opener.open(request, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def log_in(self):
        self.ask("/login/")
        (token,) = (cookie.value for cookie in self._cookies if cookie.name == "csrftoken")
        form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
        status, _ = self.ask("/login/", urlencode(form).encode(), Referer=self.address)
        assert status == 200
        status, text = self.ask("/api/v1/token/", self._json(username="admin", password=PASSWORD), **self._type)
        assert status == 201, text
        self._type["Authorization"] = f"Token {json.loads(text)['token']}"

    _type = {"Content-Type": "application/json"}

    @staticmethod
    def _json(**facts):
        return json.dumps(facts).encode()

    def post(self, path, **facts):
        status, text = self.ask(f"/api/v1/{path}", self._json(**facts), **self._type)
        assert status in {200, 201, 202}, text
        return json.loads(text) if text else None

    def get(self, path):
        """Return (status, parsed JSON)."""
        status, text = self.ask(f"/api/v1/{path}", **self._type)
        return status, json.loads(text)


@pytest.fixture
def server(tmp_path):
    with debian_server(tmp_path / "server", is_migrated=True) as running:
        yield running


@pytest.fixture
def machine(server, tmp_path):
    made = Machine(Database(server.address), tmp_path)
    yield made
    made.clean_up()


def start_everything(machine, **environment):
    """Start `manage.py run` with two workers. Return the process and the administrator's client."""
    running = machine.start("run", "--workers", 2, CRAWLCTL_ADMIN_PASSWORD=PASSWORD, **environment)
    output = wait_for(
        lambda: running.out if "web interface: " in running.out else None, saying="the web server prints its address"
    )
    browser = Browser(output.split("web interface: ")[1].split()[0])
    wait_for(lambda: browser.ask("/login/")[0] == 200, saying="the web server answers")
    browser.log_in()
    return running, browser


def start_job(browser, site, *, output, **facts):
    """Create a job with these facts through the API alone, start it, and return its id."""
    policy = browser.post("policies/", name="brisk", open_requests=4, min_gap=0, unlimited=True)
    repository = browser.post("repositories/", name="the web", connector="web")
    target = browser.post("outputs/", name="file", connector="jsonl", configuration={"path": str(output)})
    job = browser.post(
        "jobs/",
        name="site",
        repository=repository["id"],
        outputs=[target["id"]],
        specification={"scope": "any", "allow_private_networks": True},
        seeds=[{"urls": [site.start_url], "policy": policy["id"]}],
        **facts,
    )
    browser.post(f"jobs/{job['id']}/start/")
    return job["id"]


@pytest.mark.debian("postgresql")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["in order", "as in a crash"])
def test_a_crawl_survives_a_restart_of_its_database_server(machine, server, serve, tmp_path, number):
    site = serve(pages=300, hosts=2, traps=3, latency_ms=40)
    running, browser = start_everything(machine)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for(lambda: site.count_requests() > 100, saying="the crawl is in progress")

    server.end(number)

    status, page = browser.ask("/")
    assert (status, "The database does not answer" in page) == (503, True)
    status, problem = browser.get("jobs/")
    assert (status, problem["code"]) == (503, "database_unavailable")

    server.start()

    wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
    assert {stage for stage, _ in machine.database.documents()} == {2}
    assert machine.database.rows("SELECT kind, reason FROM nodes_node WHERE status = 'failed'") == [], running.err
    running.send(signal.SIGTERM)
    assert running.wait() == 0


@pytest.mark.debian("postgresql")
def test_a_one_shot_survives_a_restart_of_its_database_server(machine, server, serve, tmp_path):
    site = serve(pages=200, hosts=2, traps=3, latency_ms=40)
    crawl = machine.start_crawl(
        site.start_url, "--scope", "any", "--connections-per-host", 2, "--workers", 2, output=tmp_path / "pages.jsonl"
    )
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    server.end(signal.SIGQUIT)
    server.start()

    crawl = ended(crawl)
    assert (crawl.code, crawl.facts["reason"]) == (0, "finished")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
