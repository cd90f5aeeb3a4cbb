"""
Proves `runauthority` as a process: with real authorities that hang, changes by another process, and an orderly end.
"""

import concurrent.futures
import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from uuid import uuid4

from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection
from tests.support import forking
from tests.support.processes import PATIENCE
from tests.support.tables import each_row
from tests.support.waiting import wait_until

LIMIT = 1


class Running:
    """The process, and a client with the token of a service."""

    def __init__(self, process, address, token):
        self.process, self.address, self.token = process, address, token

    def get(self, path, *, token=None):
        headers = {"Authorization": f"Bearer {token or self.token}"}
        request = urllib.request.Request(f"{self.address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ask(self, user):
        """Return the answers about a user, by authority."""
        status, text = self.get(f"/access?username={user}")
        assert status == 200, text
        return {one["authority"]: one for one in json.loads(text)["answers"]}


@contextlib.contextmanager
def runauthority(database, *options):
    _token, text = verbs.create_token(name=f"search {uuid4()}", made_by="a test")
    command = [sys.executable, "manage.py", "runauthority", "--port", "0", *options]
    process = forking.start(command, env=database.environment, stdout=subprocess.PIPE)
    try:
        address = process.stdout.readline().decode().strip().removesuffix("/UserACLs")
        assert address.startswith("http://127.0.0.1:")
        yield Running(process, address, text)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def hanging_server():
    """Listen, accept connections, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in accepted:
            one.close()


def hanging(port, kind):
    """Return the kind and the configuration of an authority at a server that hangs."""
    if kind == "ldap":
        return {"kind": kind, "configuration": {"servers": [f"ldap://127.0.0.1:{port}"], "base": "dc=x"}}
    facts = {"host": "127.0.0.1", "port": port, "database": "d", "username": "u", "tls": "disable"}
    return {"kind": kind, "configuration": {**facts, "query": "SELECT %(user)s"}}


@each_row("kind", ["ldap", "sql"])
def test_one_hanging_authority_of_twelve_delays_only_its_own_questions(machine, kind):
    database = machine.database
    with hanging_server() as port:
        group = verbs.create_group(name=f"g {kind}", made_by="a test").pk
        facts = {"group": group, "time_limit": LIMIT, "made_by": "a test"}
        for number in range(11):
            verbs.create(AuthorityConnection, name=f"{kind} {number}", kind="null", **facts)
        verbs.create(AuthorityConnection, name=f"{kind} hangs", **hanging(port, kind), **facts)
        with runauthority(database) as running, concurrent.futures.ThreadPoolExecutor(4) as threads:
            began = time.monotonic()
            answers = list(threads.map(running.ask, [f"user{number}" for number in range(40)]))
            whole = time.monotonic() - began

    assert {one[f"{kind} hangs"]["status"] for one in answers} == {"unreachable"}
    assert {one[f"{kind} hangs"]["tokens"][0] for one in answers} == {"DEAD_AUTHORITY"}
    others = [one[f"{kind} {number}"] for one in answers for number in range(11)]
    assert {one["status"] for one in others} == {"authorized"}
    seconds = [one[f"{kind} hangs"]["seconds"] for one in answers]
    assert statistics.quantiles(seconds, n=100)[98] < LIMIT + 0.9
    # Each question would have taken a second if all 40 had waited for the authority that hangs.
    assert whole < 40 * LIMIT / 2
    assert statistics.median(one["seconds"] for one in others) < LIMIT / 2


def test_a_change_by_another_process_applies_and_an_outage_is_stored(machine, tmp_path):
    database = machine.database
    users = tmp_path / "users.yaml"
    users.write_text("users: {alice: {tokens: [staff]}}")
    group = verbs.create_group(name="g", made_by="a test")
    facts = {"kind": "file", "group": group.pk, "made_by": "a test"}
    verbs.create(AuthorityConnection, name="file", configuration={"path": str(users)}, **facts)
    with runauthority(database) as running:
        assert running.get("/UserACLs?username=alice") == (200, "AUTHORIZED:file\nTOKEN:g:staff\n")

        verbs.change_group(group.pk, name="renamed", made_by="a test")
        wait_until(lambda: running.get("/UserACLs?username=alice")[1] == "AUTHORIZED:file\nTOKEN:renamed:staff\n")

        users.unlink()
        wait_until(lambda: running.ask("bob") and "does not answer" in listed(machine))
        users.write_text("users: {}")
        wait_until(lambda: running.ask("bob") and "does not answer" not in listed(machine))

        verbs.delete_token(verbs.ServiceToken.objects.get().pk, made_by="a test")
        wait_until(lambda: running.get("/UserACLs?username=alice")[0] == 401)


def listed(machine):
    listing = machine.start("authority", "list")
    assert listing.wait() == 0
    return listing.out


def test_the_service_refuses_clients_without_a_token_and_ends_in_order(machine):
    database = machine.database
    with hanging_server() as port:
        group = verbs.create_group(name="g", made_by="a test").pk
        verbs.create(
            AuthorityConnection, name="hangs", group=group, time_limit=2, made_by="a test", **hanging(port, "sql")
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            metrics = free.getsockname()[1]
        with runauthority(database, "--metrics-port", str(metrics)) as running:
            assert running.get("/healthz") == (200, '{"status": "ok"}')
            assert running.get("/readyz")[0] == 200
            assert running.get("/UserACLs?username=a", token="wrong")[0] == 401
            assert running.get("/UserACLs")[0] == 400
            assert running.get("/nowhere")[0] == 404

            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                future = threads.submit(running.ask, "alice")
                wait_until(lambda: b"requests_total 1.0" in figures(metrics))
                running.process.send_signal(signal.SIGTERM)
                assert future.result()["hangs"]["status"] == "unreachable"
            assert running.process.wait(PATIENCE) == 0


def figures(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        return answer.read()


@each_row(
    "options",
    [
        ["--port", "x"],
        ["--port", "70000"],
        ["--host", "no.such.host.invalid"],
        ["--metrics-port", "-5"],
        ["--nonsense"],
    ],
)
def test_invalid_options_end_the_service_with_2_and_without_a_traceback(machine, options):
    service = machine.start("runauthority", *options)

    assert service.wait() == 2, service.err
    assert "Traceback" not in service.err


def test_a_port_in_use_ends_the_service_with_2(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = machine.start("runauthority", "--port", port)
        assert service.wait() == 2

    assert f"Cannot listen on 127.0.0.1:{port}" in service.err
