"""Proves that the files of `deploy/` are valid, and that each command in them works as it is written."""

import configparser
import datetime as dt
import http.client
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.lifetimes import ENDS_WITH_PYTEST
from tests.support.metrics import free_port
from tests.support.processes import wait_for

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAME = "crawl.example.org"
KEY = "a long secret key for the tests of the deployment"


def compose():
    """Return the compose file with its merged keys, without the parts that only serve to merge."""
    read = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return {name: part for name, part in read.items() if not name.startswith("x-")}


def settings_of_a_deployment():
    """Return crawlctl.env with its secrets filled in."""
    lines = (DEPLOY / "crawlctl.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return given | {"CRAWLCTL_SECRET_KEY": KEY, "POSTGRES_PASSWORD": "a password", "CRAWLCTL_USER_AGENT": "tests/1"}


def filled_in(value):
    """Return a value of the compose file as compose would: with the variables of the settings."""
    given = settings_of_a_deployment()

    def fill(found):
        assert given.get(found["name"]) or found["default"] is not None, f"{found['name']} is not in crawlctl.env"
        return given.get(found["name"]) or found["default"]

    return re.sub(r"\$\{(?P<name>[A-Z_]+)(?::-(?P<default>[^}]*)|:\?[^}]*)?\}", fill, str(value))


def commands_of_units():
    """Return the words of each command of the units, with `1` in place of the name of an instance."""
    found = {}
    for unit in (DEPLOY / "systemd").glob("*.service"):
        read = configparser.ConfigParser(interpolation=None, strict=False)
        read.read(unit)
        program, *words = shlex.split(read["Service"]["ExecStart"].replace("%i", "1").replace("%l", "host"))
        assert program == "/opt/crawlctl/bin/crawlctl"
        found[unit.name] = words
    return found


# --- The files -----------------------------------------------------------------------------------


def test_the_compose_file_obeys_the_compose_specification():
    checked = PyCompose.from_yaml(yaml.safe_dump(compose()))
    checked.validate()

    names = {"database", "migrate", "web", "authority", "manager-1", "manager-2", "worker", "tasks"}
    assert set(checked.service_names()) == names


def test_the_check_of_the_compose_file_finds_a_misspelled_key():
    broken = compose()
    broken["services"]["web"]["comand"] = broken["services"]["web"].pop("command")

    with pytest.raises(ValueError, match="comand"):
        PyCompose.from_yaml(yaml.safe_dump(broken))


def test_compose_publishes_ports_only_on_its_own_machine():
    ports = [port for service in compose()["services"].values() for port in service.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.debian("systemd")
def test_systemd_accepts_the_units(tmp_path):
    # Verification needs a program at the path of ExecStart.
    program = tmp_path / "crawlctl"
    program.symlink_to("/bin/true")
    units = []
    for unit in (DEPLOY / "systemd").iterdir():
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/opt/crawlctl/bin/crawlctl", str(program)))

    verified = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)

    warnings = [line for line in verified.stderr.splitlines() if str(tmp_path) in line or "crawlctl" in line]
    assert (verified.returncode, warnings) == (0, [])


# --- The commands --------------------------------------------------------------------------------


@pytest.fixture
def deployed(tmp_path):
    """Return a function that starts a service on a machine with the environment that compose gives to it."""

    def start(machine, service, words, **others):
        given = {name: filled_in(value) for name, value in service.get("environment", {}).items()}
        here = {
            "DATABASE_URL": machine.database.url,
            "CRAWLCTL_VAR": str(tmp_path / "var"),
            "CRAWLCTL_OUTPUT_ROOT": str(tmp_path / "outputs"),
        }
        # A test listens on loopback only. The container's own network hides the address in compose.
        on_loopback = ["127.0.0.1" if word == "0.0.0.0" else word for word in words]
        return machine.start(*on_loopback, **{**given, **here, **others})

    return start


def ends_well(command):
    # Migrations compute for many seconds, and other tests may need the processors meanwhile.
    assert command.wait(within=240) == 0, command.err
    assert "Warning" not in command.err
    assert "Traceback" not in command.err


def answer_of_authority(port):
    """Return the status code of the answer to a question without the token of a service, or 0 without an answer."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/UserACLs?username=vera", timeout=5)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0
    return 200


def test_the_commands_of_compose_run_as_they_are_written(new_machine, deployed):
    services = compose()["services"]
    web = services["web"]
    port, of_authority = str(free_port()), str(free_port())

    def probe():
        kind, program, *words = web["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        environment = {**os.environ, "CRAWLCTL_PORT": port}
        return subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=False).returncode

    early = deployed(new_machine, web, web["command"], CRAWLCTL_PORT=port)
    assert early.wait() == 2
    ends_well(deployed(new_machine, services["migrate"], services["migrate"]["command"]))
    ports = {"CRAWLCTL_PORT": port, "CRAWLCTL_AUTHORITY_PORT": of_authority}
    running = [
        deployed(new_machine, services[name], services[name]["command"], **ports)
        for name in ("web", "authority", "manager-1", "manager-2", "worker", "tasks")
    ]

    # A probe starts Python.
    wait_for(lambda: accepts(int(port)), saying="the web server listens")
    wait_for(lambda: probe() == 0, saying="the web server is ready")
    wait_for(lambda: answer_of_authority(of_authority) == 401, saying="the authority service answers")
    nodes = "SELECT kind, count(*) FROM nodes_node WHERE status = 'running' GROUP BY kind ORDER BY kind"
    wait_for(lambda: new_machine.database.rows(nodes) == [("manager", 2), ("worker", 1)], saying="all nodes run")
    wait_for(lambda: new_machine.database.rows("SELECT FROM tasks_taskworker"), saying="the task worker runs")
    for command in running:
        command.send(signal.SIGTERM)
    for command in running:
        ends_well(command)


def test_the_commands_of_the_units_run_as_they_are_written(machine, deployed):
    commands = commands_of_units()
    # Compose migrates an empty database. Here, the migration finds nothing to do.
    ends_well(deployed(machine, {}, commands.pop("crawlctl-migrate.service")))
    web = commands.pop("crawlctl-web.service")
    assert web == ["serve", "--port", "8000"]
    port = str(free_port())
    running = [deployed(machine, {}, words, CRAWLCTL_AUTHORITY_PORT=port) for words in commands.values()]
    wait_for(lambda: answer_of_authority(port) == 401, saying="the authority service answers")

    nodes = "SELECT name FROM nodes_node WHERE status = 'running' ORDER BY name"
    wait_for(lambda: machine.database.rows(nodes) == [("host-manager-1",), ("host-worker-1",)], saying="all nodes run")
    task_workers = "SELECT name FROM tasks_taskworker"
    wait_for(lambda: machine.database.rows(task_workers) == [("host-tasks",)], saying="the task worker runs")
    for command in running:
        command.send(signal.SIGTERM)
    for command in running:
        ends_well(command)


# --- TLS -----------------------------------------------------------------------------------------


def certify(directory):
    """Write a certificate of the name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    directory.mkdir()
    (directory / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "privkey.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture
def nginx(tmp_path):
    """Return a directory like /etc/nginx with our site, whose ports are free ones: (directory, ports)."""
    directory = tmp_path / "nginx"
    directory.mkdir()
    certify(directory / NAME)
    ports = {number: free_port() for number in (80, 443, 8000)}
    site = (DEPLOY / "nginx.conf").read_text()
    for before, number in (("listen ", 80), ("listen ", 443), ("127.0.0.1:", 8000)):
        assert f"{before}{number}" in site
        after = f"{before}127.0.0.1:{ports[number]}" if before == "listen " else f"{before}{ports[number]}"
        site = site.replace(f"{before}{number}", after)
    (directory / "site.conf").write_text(site)
    (directory / "nginx.conf").write_text(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;\n"
        "events {}\n"
        "http { access_log off; include site.conf;\n"
        + "".join(f"{kind}_temp_path {kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + "}\n"
    )
    return directory, ports


def command_of(directory, *options):
    return ["/usr/sbin/nginx", "-p", directory, "-c", directory / "nginx.conf", "-e", "stderr", *options]


@contextmanager
def running(directory, port):
    process = subprocess.Popen([*ENDS_WITH_PYTEST, *command_of(directory)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: accepts(port), saying="nginx listens")
        yield
    finally:
        process.terminate()
        process.wait()


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port, path, *, trusted=None):
    """Ask nginx by our name, with TLS if there is a certificate to trust. Return the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    if trusted:
        connection.connect()
        context = ssl.create_default_context(cafile=trusted)
        connection.sock = context.wrap_socket(connection.sock, server_hostname=NAME)
    connection.request("GET", path, headers={"Host": NAME})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


@pytest.mark.debian("nginx")
def test_nginx_accepts_our_configuration(nginx):
    directory, _ports = nginx

    tested = subprocess.run(command_of(directory, "-t"), capture_output=True, text=True, check=False)

    assert tested.returncode == 0, tested.stderr
    assert "warn" not in tested.stderr


@pytest.mark.debian("nginx")
def test_pages_behind_nginx_are_secure(nginx, machine):
    directory, ports = nginx
    trusted = directory / NAME / "fullchain.pem"
    own = {name: value for name, value in settings_of_a_deployment().items() if value and name != "POSTGRES_PASSWORD"}
    machine.start("serve", "--port", ports[8000], **own)
    wait_for(lambda: accepts(ports[8000]), saying="the web server listens")

    with running(directory, ports[443]):
        plain = ask(ports[80], "/login/")
        page = ask(ports[443], "/login/", trusted=trusted)
        probe = ask(ports[443], "/readyz", trusted=trusted)

    assert (plain.status, plain.headers["Location"]) == (308, f"https://{NAME}/login/")
    assert page.status == 200
    assert "Secure" in page.headers["Set-Cookie"]
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert probe.status == 403
