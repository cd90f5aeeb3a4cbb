"""
Proves with axe-core, in a real browser, that no page breaks a rule of WCAG 2.2 AA.

This process renders the pages, and the browser gets them from here: a web server would only add time.
"""

import datetime as dt
import uuid
import zlib
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.contrib.staticfiles import finders
from django.test import Client
from playwright.sync_api import sync_playwright

from jobs.connectors.repository.access import OPEN
from jobs.connectors.repository.freshness_goals import read_goals
from jobs.models import (
    DocumentVersion,
    GoalTotal,
    Job,
    Lane,
    LanePlan,
    OutputConnection,
    OutputVerification,
    QueueItem,
    Run,
)
from jobs.notices import mailings
from jobs.notices import verbs as notices
from jobs.queue.sql.arrays import register_arrays
from jobs.settings.logins import ISSUER
from jobs.settings.webmasters import PAGES, SHOWN
from jobs.ui import coordination_views
from jobs.webmasters.limit_requests import make
from nodes.coordination.raw_tree import Branch, TreeNode
from tests.integration.test_archive_interfaces import make_archive_record
from tests.support.addresses import VALUES, addresses
from tests.support.api import NOON, client_of
from tests.support.changes_by_api import authorize, give_token, limit_by_webmaster
from tests.support.crowd import bring_in
from tests.support.filled_queue import FilledQueue, Shape

pytestmark = pytest.mark.debian("chromium-headless-shell")

WEB = "http://pages.test"
# Addresses whose answers are data or files.
_NO_PAGES = frozenset({"api/", "static/", "manual/", "metrics", "UserACLs", "mcf-authority-service/"})
# Addresses with a query that leads to a separate page.
_WITH_QUERY = ("/explain/?", "/tasks/run/?", "/tasks/archived/reschedule/?", "/tasks/scheduled/cancel/?")
# Tables of the set-up. Other tables have the same forms and lists.
_SET_UP = tuple(
    f"/admin/{table}/"
    for table in (
        *("auth/user", "authorities/authorityconnection", "jobs/job", "jobs/jobevent", "jobs/repositoryconnection"),
        *("jobs/throttlegroup", "jobs/throttlepolicy", "tasks/archivedtask"),
    )
)
_WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Rules whose result depends on the colours or on the width of the window.
_OF_LAYOUT = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
_LOOKS = (
    ("light", {"width": 1400, "height": 900}, _WCAG),
    ("dark", {"width": 400, "height": 900}, _OF_LAYOUT),
)

# Script that switches transitions off: during a transition, a colour has another contrast.
_STILL = """
addEventListener("DOMContentLoaded", () => {
  const style = "<style>*, ::before, ::after { transition: none !important; animation: none !important; }</style>";
  document.head.insertAdjacentHTML("beforeend", style);
});
"""
# Script that returns the broken rules, each with its first element. Only three rows of a list are checked, because all
# rows have the same elements. The frame of the pages is checked once. Unfold reads the theme only while a page loads,
# so this script changes the class of the theme. Icons are excluded: an icon is a text until its font arrives.
_CHECK = """
([rules, theme, hasFrame]) => {
  document.documentElement.classList.toggle("dark", theme === "dark");
  const more = ["tr", "[data-key]", "option"].map((row) => `${row} ~ ${row} ~ ${row} ~ ${row}`).join();
  document.querySelectorAll(more).forEach((row) => row.remove());
  const frame = hasFrame ? [] : [["header.top"], ["nav.places"], [".foot"]];
  const exclude = [[".material-symbols-outlined"], ...frame];
  return axe.run({ exclude }, { runOnly: rules, resultTypes: ["violations"], preload: false, iframes: false }).then(
    ({ violations }) => violations.map(({ id, nodes: [{ html, failureSummary }] }) => `${id}: ${html} ${failureSummary}`),
  );
}
"""


# A branch of the tree of ZooKeeper.
BRANCH = Branch(
    "/crawlctl", "/jobs", (("crawlctl", ""),), '{"a": 1}', 8, 3, NOON,
    tuple(TreeNode(name, f"/jobs/{name}", 10, 1, NOON, is_ephemeral=name == "b") for name in "abc"), 70, 1,
)  # fmt: skip


@pytest.fixture
def pages(machine, settings, monkeypatch, tmp_path):
    """Fill the database with objects of each kind. Return all pages by address."""
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, PAGES.path: True, SHOWN.path: ("*",)}
    with psycopg.connect(machine.database.dsn, autocommit=True) as connection:
        register_arrays(connection)
        FilledQueue(connection, documents=500, shape=Shape(bins=8, jobs=2))
        bring_in(connection, many=20, workers=2)
        earlier, later = add_things()
        add_goals()
        add_versions_and_an_archive(connection, tmp_path)
        # The test uses no ZooKeeper, which would only add time: the page shows a branch of the same tree.
        monkeypatch.setattr(coordination_views, "uses_zookeeper", lambda: True)
        monkeypatch.setattr(coordination_views, "read_raw_tree", lambda **_: BRANCH)
        known = addresses(connection, but=_NO_PAGES)
        paths = [path for path in known if is_visited(path)]
    paths += [f"/runs/comparison/?earlier={earlier}&later={later}", "/nothing/"]
    shown = rendered(client_of(is_superuser=True), paths)
    # The pages really show their content: goals, a difference of versions, an archived exchange, and a branch.
    pages = "\n".join(shown.values())
    wanted = ("the host allows 1.0/s", "a new line", "X-A: ", "/jobs/b")
    assert [text for text in wanted if text not in pages] == []
    # The login page has both ways to log in.
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, ISSUER.path: "https://login.example"}
    proof = f"/webmasters/h7.example/proof/?{urlencode({'request': make('h7.example', gap=10.0).text})}"
    return {**shown, **rendered(Client(), ["/login/?ended", proof])}


def is_visited(path):
    if path.startswith("/admin/") and path.count("/") > 3:
        return path.startswith(_SET_UP) and "?" not in path
    return "?" not in path or path.startswith(_WITH_QUERY)


def add_things():
    """Add objects that the filled queue lacks. Return the keys of two runs."""
    job, output = Job.objects.earliest("id"), OutputConnection.objects.earliest("id")
    authorize(SimpleNamespace())
    limit_by_webmaster(None)
    give_token(SimpleNamespace())
    mail = {"host": "a.example", "sender": "a@a.example", "recipients": ["b@a.example"]}
    channel = notices.create_channel(name="a", kind="email", configuration=mail, made_by="vera")
    notices.create_rule(name="a", channels=[channel.pk], made_by="vera")
    weekly = {"report": "queue", "channel": channel.pk, "schedule": {"cron": "0 7 * * 1"}}
    mailings.put_mailing(**weekly, name="a", made_by="vera")
    OutputVerification.objects.create(output=output, missing=2)
    day = dt.timedelta(days=1)
    runs = [Run(job=job, run_no=number, started_at=NOON + number * day, run_end="finished") for number in (1, 2)]
    return [run.pk for run in Run.objects.bulk_create(runs)]


def add_goals():
    """Give the first job goals. A host is too slow for one of these goals."""
    stored = [{"pattern": "/news/", "percent": 95.0, "within": 900.0}, {"pattern": ".", "percent": 90.0, "within": 8e5}]
    job = Job.objects.earliest("id")
    Job.objects.filter(pk=job.pk).update(kind="continuous", freshness_goals=stored, kept_versions=3)
    version = read_goals(stored).version
    figures = {"documents": 30, "expected": 20, "needs": 3.2, "gets": 1.0, "measured_at": NOON}
    for number, fresh in enumerate((10, 30)):
        GoalTotal.objects.create(job=job, goals=version, number=number, fresh=fresh, **figures)
    lane = Lane.objects.filter(seed__job=job).earliest("id")
    slow = {"allows": 1.0, "host_needs": 3.2, "lacks": 2.2, "since": NOON, "priced_at": NOON, "due_at": NOON}
    LanePlan.objects.create(lane=lane, job=job, goals=version, **slow)


def add_versions_and_an_archive(connection, directory):
    """Give the document that the pages show two versions, and an exchange in an archive."""
    # The document in the addresses of pages.
    row = connection.execute(VALUES["documents/"].encode()).fetchone()
    job, _, hash_ = row[0].partition("/")
    document = QueueItem.objects.get(job=job, hash=hash_)
    for number, text in enumerate(("the first line\nthe last line", "the first line\na new line"), start=1):
        DocumentVersion.objects.create(
            job=document.job, hash=document.hash, number=number, fetched_at=NOON, run_no=1, code="200",
            headers="Content-Type: text/html", text=zlib.compress(text.encode()), length=len(text), is_cut=False,
            digest=uuid.UUID(int=number), access=OPEN.as_json(),
        )  # fmt: skip
    make_archive_record(document, directory)


def rendered(client, paths):
    """Return pages by address. A page of the set-up or of an error is left out if earlier pages have its templates."""
    shown, seen = {}, set()
    for path in paths:
        answer = client.get(path)
        if not answer.headers.get("Content-Type", "").startswith("text/html"):
            continue
        templates = {template.name for template in answer.templates}
        is_own = answer.status_code == 200 and not path.startswith("/admin/")
        if is_own or templates - seen:
            shown[path] = answer.content.decode()
        seen |= templates
    return shown


def test_no_page_breaks_a_rule_of_wcag_in_any_theme_or_size(pages, chromium):
    found = []

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(base_url=WEB, reduced_motion="reduce")
        page.route("**/*", lambda route: answer(route, pages))
        page.add_init_script(AXE_SCRIPT)
        page.add_init_script(_STILL)
        for path in pages:
            page.goto(path)
            for theme, size, rules in _LOOKS:
                page.emulate_media(color_scheme=theme)
                page.set_viewport_size(size)
                broken = page.evaluate(_CHECK, [rules, theme, path == "/"])
                found += [f"{path} ({theme}): {rule}" for rule in broken]
        browser.close()

    assert not found, "\n".join(found)
    assert len(pages) > 90


def answer(route, pages):
    """Answer a request of the browser with a page or a static file."""
    address = urlsplit(route.request.url)
    path = f"{address.path}?{address.query}" if address.query else address.path
    if path in pages:
        route.fulfill(body=pages[path], content_type="text/html; charset=utf-8")
    elif path.startswith("/static/") and (found := finders.find(address.path.removeprefix("/static/"))):
        route.fulfill(path=Path(found))
    else:
        route.fulfill(status=404)
