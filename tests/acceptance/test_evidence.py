"""
Proves by the access log of a site that the record of requests to the site is true, and that limits of its webmaster
apply.
"""

import datetime as dt
import http.server
import threading
import time
from contextlib import contextmanager

import psycopg
from django.core.management import CommandError, call_command
from django.utils import timezone

from crawlctl.demo.log import read_log
from jobs.duties.evidence import append_evidence
from jobs.models import EvidenceChain, WebmasterLimit
from jobs.verbs import webmasters
from nodes.database.address import database_dsn
from tests.chaos.checkers import fetches
from tests.support.factories import make_job, make_policy
from tests.support.processes import ended, wait_for
from tests.support.stepping import Main
from tests.support.tables import each_row

PAGES = 30
AGENT = "evidence-test/1.0"
# Seconds after which the limit of a webmaster is in force everywhere.
EFFECTIVE = 5.0


@contextmanager
def logged_site(log):
    """Serve pages that lead to each other, write an access log as Apache does, and answer 429 once."""
    refused = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            page = self.path.removeprefix("/page-")
            is_refused = page == "9" and not refused.is_set()
            status = 429 if is_refused else 404 if self.path == "/robots.txt" else 200
            body = "".join(f'<a href="/page-{number}">{number}</a>' for number in range(PAGES)).encode()
            at = dt.datetime.now(tz=dt.UTC)
            log.write(
                f'127.0.0.1 - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "{self.requestline}" {status} {len(body)} '
                f'"-" "{self.headers["User-Agent"]}"\n'
            )
            self.send_response(status)
            if is_refused:
                refused.set()
                self.send_header("Retry-After", "1")
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def checked(capsys, evidence, log):
    """Check an export against a log. Return the exit code and the answer."""
    try:
        call_command("evidence", "check", str(evidence), "--log", str(log))
    except CommandError as error:
        return error.returncode, str(error)
    return 0, capsys.readouterr().out


def test_the_log_of_the_site_confirms_the_record_of_a_crawl(machine, tmp_path, settings, capsys):
    values = {"crawl.keep_evidence": 30, "crawl.user_agent": AGENT}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}
    log, evidence, other = tmp_path / "access.log", tmp_path / "evidence.ndjson", tmp_path / "other"
    with psycopg.connect(database_dsn(), autocommit=True) as connection, log.open("w", buffering=1) as lines:
        main = Main(connection)
        main.now = timezone.now()
        main.step(append_evidence)
        with logged_site(lines) as host:
            environment = {"CRAWLCTL_KEEP_EVIDENCE": "30", "CRAWLCTL_USER_AGENT": AGENT}
            crawl = machine.crawl(f"http://{host}/page-0", "--delay", 0.2, "--workers", 1, **environment)
        main.now = timezone.now() + dt.timedelta(minutes=4)
        main.step(append_evidence)

    call_command("evidence", "export", host)
    evidence.write_text(capsys.readouterr().out)
    code, answer = checked(capsys, evidence, log)

    assert crawl.counts["indexed"] == PAGES
    assert code == 0, answer
    seen = log.read_text().splitlines(keepends=True)
    assert f"{host}: {len(seen)} requests in " in answer
    assert "may be missing" not in answer
    assert EvidenceChain.objects.get(host="").seq == 1

    middle = len(seen) // 2
    other.write_text("".join(seen[:middle] + seen[middle + 1 :]))
    assert "the evidence has a request that the log lacks" in checked(capsys, evidence, other)[1]
    other.write_text("".join([*seen[:middle], seen[middle], *seen[middle:]]))
    assert "the log has a request that the evidence lacks" in checked(capsys, evidence, other)[1]
    other.write_text("".join(line.replace('" 429 ', '" 200 ') for line in seen))
    assert "the evidence has an answer 429, and the log has none" in checked(capsys, evidence, other)[1]
    blocks = evidence.read_text().splitlines(keepends=True)
    other.write_text("".join([blocks[0], blocks[1].replace('"bytes":', '"bytes":1'), *blocks[2:]]))
    assert checked(capsys, other, log) == (1, "The chain is broken. Block 1 does not match its hash.")


def test_the_record_names_the_gap_that_a_killed_worker_left(machine, tmp_path, settings, capsys):
    values = {"crawl.keep_evidence": 30, "crawl.user_agent": AGENT}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}
    log, evidence = tmp_path / "access.log", tmp_path / "evidence.ndjson"
    with psycopg.connect(database_dsn(), autocommit=True) as connection, log.open("w", buffering=1) as lines:
        main = Main(connection)
        main.now = timezone.now()
        main.step(append_evidence)
        with logged_site(lines) as host:
            environment = {"CRAWLCTL_KEEP_EVIDENCE": "30", "CRAWLCTL_USER_AGENT": AGENT}
            crawl = machine.start_crawl(f"http://{host}/page-0", "--delay", 0.2, "--workers", 1, **environment)
            wait_for(lambda: len(log.read_text().splitlines()) > 8, saying="the crawl is in progress")
            crawl.children()[0].kill()
            ended(crawl)
        main.now = timezone.now() + dt.timedelta(minutes=4)
        main.step(append_evidence)

    call_command("evidence", "export", host)
    evidence.write_text(capsys.readouterr().out)
    code, answer = checked(capsys, evidence, log)

    assert code == 0, answer
    assert f"{host}: {len(log.read_text().splitlines())} requests" not in answer
    assert "requests may be missing. A worker did not report its requests." in answer


@each_row(("gap", "most"), [(None, 0), (60.0, 1)])
def test_the_limit_of_a_webmaster_is_in_force_within_five_seconds(cluster, serve, gap, most):
    site = serve(pages=300, traps=0)
    cluster.start("runmanager", "runworker")
    host = site.plan.origins[0].removeprefix("http://")
    job = make_job(
        urls=[site.plan.url(page) for page in range(300)],
        policy=make_policy(open_requests=2, min_gap=0.1),
        specification={"max_depth": 0, "scope": "any"},
    )
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 10, saying="the crawl is in progress")

    asked_at = time.monotonic()
    facts = {"proof": WebmasterLimit.Proof.DNS, "token": "a token", "lasts": dt.timedelta(days=1)}
    webmasters.put_in_force(host, gap=gap, now=timezone.now(), **facts)
    time.sleep(EFFECTIVE + 2)

    assert site.lines
    late = [fetch for fetch in fetches(read_log(site.log), ()) if fetch.start > asked_at + EFFECTIVE]
    assert len(late) <= most
