"""
Proves that a crawl finds every page of a site not made for tests: PostgreSQL's manual from Debian, served by nginx.

The expected pages are counted from the files, with the HTML parser of the standard library and none of our code.
"""

import contextlib
import socket
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from tests.support.processes import PATIENCE, held_by, read_lines, wait_for

pytestmark = [pytest.mark.debian("postgresql-doc"), pytest.mark.debian("nginx")]

# This configuration keeps all files of nginx below its prefix, and reads no file of the machine's own nginx.
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    types {{ text/html html; text/css css; image/svg+xml svg; }}
    log_format short '$status $request_uri';
    access_log access.log short;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port};
        root "{root}";
    }}
}}
"""


@pytest.fixture
def manual():
    (html,) = sorted(Path("/usr/share/doc").glob("postgresql-doc-*/html"))[-1:]
    return html


@pytest.fixture
def served(manual, tmp_path):
    """Serve the manual with a private nginx. Return its address and the log of its answers."""
    prefix = tmp_path / "nginx"
    prefix.mkdir()
    port = free_port()
    configuration = prefix / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(port=port, root=manual))
    command = ["/usr/sbin/nginx", "-p", f"{prefix}/", "-c", str(configuration), "-e", "stderr"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: server.poll() is not None or answers(port), saying="nginx listens")
        assert server.poll() is None
        yield f"http://127.0.0.1:{port}/", prefix / "access.log"
    finally:
        server.terminate()
        server.wait(PATIENCE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Links(HTMLParser):
    """A parser that collects the addresses a page links to, as written."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in {"a", "area"}:
            self.found += [value for name, value in attrs if name == "href" and value]


def walk(root, start):
    """Return the names of the HTML files below `root` that links from `start` reach."""
    seen, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        for href in Links((root / name).read_text(encoding="utf-8")).found:
            address = urlsplit(urljoin(f"file:///{name}", urldefrag(href).url))
            target = unquote(address.path).lstrip("/")
            is_page = address.scheme == "file" and target.endswith(".html") and (root / target).is_file()
            if is_page and target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def test_the_manual_is_indexed_page_by_page_and_requested_once(machine, manual, served, tmp_path):
    address, log = served
    output = tmp_path / "manual.jsonl"
    expected = {f"{address}{name}" for name in walk(manual, "index.html")}

    crawl = machine.crawl(f"{address}index.html", output=output)

    assert len(expected) > 1000
    assert held_by(output) == expected
    assert (crawl.code, crawl.counts["indexed"], crawl.counts["failed"]) == (0, len(expected), 0)
    answered = Counter(line for line in log.read_text().splitlines() if line.startswith("200 ") and ".html" in line)
    assert len(answered) == len(expected)
    assert set(answered.values()) == {1}


def test_the_visible_text_of_a_page_is_in_the_output(machine, served, tmp_path):
    address, _ = served
    output = tmp_path / "manual.jsonl"

    machine.crawl(f"{address}sql-select.html", "--max-documents", 1, output=output)

    (line,) = read_lines(output)
    assert line["title"] == "SELECT"
    assert "retrieve rows from a table or view" in line["text"]
    assert line["content_type"] == "text/html"


def test_no_page_of_an_unchanged_manual_is_read_again(machine, served, tmp_path):
    address, log = served
    output = tmp_path / "manual.jsonl"
    first = machine.crawl(f"{address}index.html", "--job", "manual", output=output)
    written = len(read_lines(output))
    requests_before = len(log.read_text().splitlines())

    second = machine.crawl("--job", "manual", output=output)

    assert (second.code, second.counts["unchanged"]) == (0, first.counts["indexed"])
    assert len(read_lines(output)) == written
    statuses = Counter(
        line.split()[0] for line in log.read_text().splitlines()[requests_before:] if "robots.txt" not in line
    )
    assert statuses == {"304": first.counts["indexed"] + first.counts["excluded"]}
