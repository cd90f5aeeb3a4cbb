"""Proves in a real browser, on a real cluster, that an operator can do every task and that pages never fail."""

import datetime as dt
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect, sync_playwright

from jobs.models import ClusterMinute
from jobs.queries.cluster.facts import as_text
from nodes.membership.changes import MASK
from tests.support.distributed_jobs import DIARY
from tests.support.lifetimes import ENDS_WITH_PYTEST
from tests.support.metrics import free_port
from tests.support.processes import wait_for
from tests.support.single_sign_on import running_provider

pytestmark = [pytest.mark.debian("chromium-headless-shell"), pytest.mark.usefixtures("administrator")]

PASSWORD = "a long phrase of the administrator"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>javascript:alert(4)"

# The explanation of the document of `make_hostile_rows`.
EXPLAINED = f"/explain/?{urlencode({'url': f'http://hostile.test/{HOSTILE}'})}"
TASKS = (
    *("/tasks/", "/tasks/scheduled/", "/tasks/archived/?why=done", "/tasks/templates/", "/tasks/workers/"),
    *("/tasks/run/", "/tasks/run/?kind=sleep", "/tasks/templates/new/?kind=clean_archive"),
)
SLOW_WORK = (
    *("/exports/", "/exports/new/?what=documents", "/retention/", "/notifications/", "/notifications/mailings/new/"),
    *("/notifications/channels/new/email/", "/notifications/rules/new/"),
)
REPORTS = ("/reports/history/", "/reports/activity/", "/reports/results/", "/reports/documents/", "/reports/queue/")

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture
def administrator(machine):
    User.objects.create_superuser("admin", password=PASSWORD)


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    """
    Connect to one browser for all tests of a file, because the start of a browser and its driver takes three seconds of
    processor time.
    """
    directory = tmp_path_factory.mktemp("chromium")
    words = [*ENDS_WITH_PYTEST, chromium, "--remote-debugging-port=0", f"--user-data-dir={directory}"]
    with subprocess.Popen([*words, *_QUIET], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            content = wait_for(lambda: _content(directory / "DevToolsActivePort"), saying="the browser listens")
            with sync_playwright() as playwright, database_beside_event_loop():
                yield playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{content.split()[0]}")
        finally:
            process.terminate()


def _content(path):
    return path.read_text() if path.exists() else ""


@contextmanager
def database_beside_event_loop():
    """
    Let fixtures use Django's database in the thread of the browser's event loop, which does not run meanwhile.

    Only calls of the connection run the loop, and none of them uses the database.
    """

    def no_loop():
        raise RuntimeError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.utils.asyncio.get_running_loop", no_loop)
        yield


@pytest.fixture
def web(machine):
    """Return the address of a cluster with one manager, one worker and a web server."""
    machine.start("runmanager", "--name", "manager-1")
    machine.start("runworker", "--name", "worker-1")
    return _address(machine.start("serve", "--port", 0))


def _address(command):
    addresses = wait_for(
        lambda: re.search(r"http://127\.0\.0\.1:\d+", command.out), saying="the web server prints its address"
    )
    return addresses[0]


@contextmanager
def visitor(browser, web, **options):
    """Yield an administrator's page. The test fails if the page logs an error or sends a request to another server."""
    # Animations take a tenth of the processor as long as they are shown.
    context = browser.new_context(base_url=web, reduced_motion="reduce", **options)
    try:
        page = context.new_page()
        page.complaints = []
        page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda line: page.complaints.append(line.text) if _is_violation(line) else None)
        page.on("request", lambda request: None if request.url.startswith(web) else page.complaints.append(request.url))
        page.goto("/login/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{web}/")
        yield page
        assert page.complaints == []
    finally:
        context.close()


def _is_violation(line):
    return "Content Security Policy" in line.text


def save(page, address, **fields):
    """Fill a form of the set-up pages and save it."""
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    for name, value in fields.items():
        element = page.locator(f"#id_{name.replace('__', '-')}")
        if element.evaluate("element => element.tagName") == "SELECT":
            element.select_option(label=value)
        elif value is True:
            element.check(force=True)
        else:
            element.fill(str(value))
    page.locator("button[name=_save]").click()
    expect(page).not_to_have_url(re.compile("/add/$"))


def set_up_job(page, seed, *, name="Site", min_gap="0.05"):
    """Create a job and everything it needs, in the browser."""
    save(page, "/admin/jobs/throttlepolicy/add/", name="brisk", open_requests=2, min_gap=min_gap)
    save(page, "/admin/jobs/repositoryconnection/add/", name="the web", connector="Web")
    save(page, "/admin/jobs/outputconnection/add/", name="index", connector="Search index")
    save(
        page,
        "/admin/jobs/job/add/",
        name=name,
        repository="the web",
        outputs_0=True,
        specification_allow_private_networks=True,
        addresses=seed,
        pace="policy brisk",
    )


def cell(page, name):
    return page.locator(f"main [data-cell={name}]").first


def amount(page, name):
    return int(cell(page, name).text_content().replace(",", ""))


def test_a_job_is_set_up_started_watched_paused_and_resumed_in_the_browser(browser, web, serve):
    site = serve(pages=300, hosts=1, traps=0)
    with visitor(browser, web) as page:
        set_up_job(page, site.start_url)
        page.goto("/")
        page.get_by_role("link", name="Site").click()
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_load_state("networkidle")

        # Numbers change without a request.
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        first = wait_for(lambda: amount(page, "processed"), saying="a document is processed")
        wait_for(lambda: amount(page, "processed") > first, saying="the number changes")
        assert requests == []
        expect(cell(page, "status")).to_have_text("Running")

        # The button appeared without a reload, too.
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(cell(page, "status")).to_have_text("Paused", timeout=4000)
        expect(page.get_by_role("button", name="Pause", exact=True)).to_have_count(0)
        requests_before = site.count_requests()
        standing = amount(page, "processed")

        page.get_by_role("button", name="Resume", exact=True).click()
        wait_for(lambda: amount(page, "processed") > standing, saying="the crawl continues")
        assert site.count_requests() > requests_before

        # The buttons of the actions are at the arrows of the diagram.
        page.get_by_role("button", name="Abort", exact=True).click()
        expect(cell(page, "status")).to_have_text("Not running", timeout=10000)
        expect(page.locator(".stages [data-lit=here]")).to_have_text("Inactive now")
        expect(page.locator(".timeline li").first).to_contain_text("Has ended")
        expect(cell(page, "run")).to_contain_text("aborted")


def test_a_slider_shows_the_cluster_at_any_minute_in_the_browser(browser, machine):
    for minute, name in enumerate(("manager-a", "manager-b")):
        node = {"name": name, "kind": "manager", "status": "running", "machine": "m", "tags": []}
        at = dt.datetime(2026, 1, 1, 12, minute, tzinfo=dt.UTC)
        ClusterMinute.objects.create(at=at, is_whole=True, facts=as_text({"nodes": {str(minute): node}}))
    with visitor(browser, _address(machine.start("serve", "--port", 0))) as page:
        page.goto("/cluster/history/?at=2026-01-01T12:00")
        expect(page.get_by_role("heading", name="manager-a")).to_be_visible()

        page.get_by_role("slider", name="Minute of the day").press("ArrowRight")

        expect(page.get_by_role("heading", name="manager-b")).to_be_visible()
        expect(page).to_have_url(re.compile("at=2026-01-01T12:01"))
        page.get_by_role("link", name="1 minute earlier").click()
        expect(page.get_by_role("heading", name="manager-a")).to_be_visible()


def test_an_address_is_explained_and_its_gates_are_opened_in_the_browser(browser, web, serve, machine):
    site = serve(pages=20, hosts=1, traps=0)
    with visitor(browser, web) as page:
        set_up_job(page, site.start_url)
        page.goto("/hosts/")
        page.get_by_role("link", name="Explain an address").click()
        page.get_by_label("Explain an address").fill("no address")
        page.get_by_role("button", name="Explain", exact=True).click()
        expect(page.locator("#url-problem")).to_contain_text("not an address that starts with http")

        # A forecast: the job does not know its seed before its first run, and its gate has the button that opens it.
        page.get_by_label("Explain an address").fill(site.start_url)
        page.get_by_role("button", name="Explain", exact=True).click()
        expect(page.locator("main")).to_contain_text("The job would not read this address now.")
        page.locator("tr[data-key='job-']").get_by_role("button", name="Start").click()
        expect(page).to_have_url(re.compile("/explain/"))

        # An ending job refuses to fetch again.
        ended = "SELECT count(*) FROM jobs_job WHERE run_no = 1 AND phase = 'inactive'"
        wait_for(lambda: machine.database.value(ended), saying="the run has ended")
        page.reload()
        expect(page.locator("tr[data-key='next_look-']")).to_contain_text("Read in run 1.")
        expect(page.locator("tr[data-key='known-']")).to_contain_text("A seed of the job names it.")
        page.get_by_role("button", name="Fetch again now").first.click()
        expect(page.locator(".message")).to_contain_text("is due now")

        page.goto(f"/explain/?{urlencode({'url': f'{site.start_url}nowhere'})}")
        page.get_by_role("button", name="Add to the seeds").click()
        expect(page.locator(".message")).to_contain_text("is a seed of Site now")


def test_every_page_works_on_a_phone_in_the_dark_theme_and_without_scripts(browser, web, machine):
    database = machine.database
    make_hostile_rows()
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "java_script_enabled": False}

    with visitor(browser, web, **phone) as page:
        for address in (
            "/",
            f"/jobs/{job_id(database)}/",
            "/documents/",
            "/cluster/",
            "/nodes/",
            "/settings/",
            "/search/?q=hostile",
            f"/jobs/{job_id(database)}/bulk/?operation=retry",
            EXPLAINED,
            *TASKS,
            *SLOW_WORK,
            *REPORTS,
        ):
            page.goto(address)
            expect(page.locator("main")).not_to_be_empty()
            assert page.locator("html").bounding_box()["width"] <= 390
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto("/")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.locator(".message.success")).to_contain_text("Starting up")


def test_markup_of_a_site_has_no_effect_on_our_pages(browser, web, machine):
    database = machine.database
    key = make_hostile_rows()

    with visitor(browser, web) as page:
        for address in (
            "/documents/",
            f"/documents/{job_id(database)}/{key}/",
            "/search/?q=hostile",
            f"/jobs/{job_id(database)}/",
            f"/jobs/{job_id(database)}/bulk/",
            EXPLAINED,
            "/exports/",
            "/reports/history/",
            "/reports/results/?identifier_class=(.*)",
            "/reports/documents/",
            "/reports/queue/?identifier_class=(.*)",
        ):
            page.goto(address)
            expect(page.locator("main")).to_contain_text("alert(1)")
        page.goto("/search/?q=hostile")
        expect(page.locator("mark").first).to_have_text("hostile")
    # `visitor` asserts that there was no dialog, no foreign request and no violation of the content security policy.


def test_reports_draw_charts_of_their_tables(browser, web, machine):
    make_hostile_rows()
    with visitor(browser, web) as page:
        for address in (*REPORTS[:3], "/reports/queue/?identifier_class=(.*)"):
            page.goto(address)
            expect(page.locator("figure.chart canvas")).to_be_visible()
            assert page.locator("canvas").evaluate(_IS_DRAWN)


def test_charts_show_local_times_in_one_format_and_whole_counts(browser, web, machine):
    make_hostile_rows()
    with visitor(browser, web, timezone_id="Asia/Tokyo") as page:
        page.goto("/account/")
        page.locator("button[name=language][value=de]").click()
        expect(page.locator("html")).to_have_attribute("lang", "de")
        page.goto("/reports/history/")

        chart = page.locator("canvas").evaluate(_READ_CHART)
        row = page.locator("tbody time").inner_text()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", label) for label in chart["labels"])
    # Bars begin at the second of a minute at which the page was requested. So a bar of 9:14:30 covers the first half of
    # 9:15.
    (began_at,) = (label for label, number in zip(chart["labels"], chart["numbers"], strict=True) if number)
    at = dt.datetime.fromisoformat(began_at)
    assert row[:5] in {f"{at:%H:%M}", f"{at + dt.timedelta(minutes=1):%H:%M}"}
    assert chart["counts"] == ["0", "1"]
    assert chart["locale"] == "de"


_READ_CHART = """
canvas => {
  const chart = Chart.getChart(canvas);
  const counts = chart.scales.y.ticks.map(({ label }) => label);
  const [{ data: numbers }] = chart.data.datasets;
  return { counts, numbers, labels: chart.data.labels, locale: chart.options.locale };
}
"""


_IS_DRAWN = """
canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(value => value)
"""


def test_a_live_page_shows_a_lost_connection_and_catches_up_afterwards(browser, web, machine):
    second = machine.start("serve", "--port", free_port())
    address = _address(second)
    with visitor(browser, address) as page:
        make_hostile_rows()
        expect(page.get_by_role("link", name=re.compile("alert"))).to_be_visible(timeout=3000)

        second.kill()
        cut = time.monotonic()
        expect(page.locator("#banner")).to_be_visible(timeout=5000)
        assert time.monotonic() - cut < 5
        machine.database.rows("UPDATE jobs_job SET name = 'renamed meanwhile' RETURNING id")
        machine.start("serve", "--port", address.rpartition(":")[2])

        expect(page.get_by_role("link", name="renamed meanwhile")).to_be_visible(timeout=30000)
        expect(page.locator("#banner")).to_be_hidden()


# --- Keyboard only ---------------------------------------------------------------------------------

# Script that marks the elements that a key can reach. After each key, note the defects of the focused element: it must
# be visible, and have an outline.
_WATCH_FOCUS = """
() => {
  const reachable = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  [...document.querySelectorAll(reachable)].filter(
    (element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility({ visibilityProperty: true }),
  ).forEach((element, place) => { element.dataset.place = place; });
  window.defects = [];
  window.addEventListener("keyup", () => {
    const element = document.activeElement;
    if (element === document.body) return;
    const note = (text) => window.defects.push(`${element.outerHTML.slice(0, 200)} ${text}`);
    const box = element.getBoundingClientRect();
    const above = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (getComputedStyle(element).outlineStyle === "none" && !/date|time/.test(element.type)) note("is not seen to have the focus");
    if (above === null) note("is outside of the window");
    else if (!element.contains(above) && !above.contains(element)) note(`is below ${above.outerHTML.slice(0, 100)}`);
    delete element.dataset.place;
  }, { capture: true });
}
"""
_UNREACHED = "() => [...document.querySelectorAll('[data-place]')].map((element) => element.outerHTML.slice(0, 200))"


def focus_defects(page):
    """
    Press Tab until every reachable element was focused. Return the defects of focused elements, and the elements never
    focused.
    """
    page.evaluate(_WATCH_FOCUS)
    unreached = page.evaluate(_UNREACHED)
    assert unreached
    # A form may focus its first field, so Tab continues from the end of the page at its beginning.
    most = 2 * len(unreached) + 20
    while unreached and most > 0:
        # Each control needs at least one key, so the check comes only after this number of keys.
        for _ in range(keys := min(len(unreached), most)):
            page.keyboard.press("Tab")
        most -= keys
        unreached = page.evaluate(_UNREACHED)
    return [*page.evaluate("window.defects"), *(f"{element} is not reached" for element in unreached)]


def test_every_control_can_be_reached_by_keys_and_shows_its_focus(browser, web, machine):
    database = machine.database
    make_hostile_rows()
    output = database.value("SELECT id FROM jobs_outputconnection")
    with visitor(browser, web, viewport={"width": 1300, "height": 800}) as page:
        for address in (
            "/",
            f"/jobs/{job_id(database)}/",
            "/hosts/",
            "/hosts/denied/",
            "/documents/",
            "/cluster/",
            f"/jobs/{job_id(database)}/bulk/?operation=retry",
            "/reports/history/",
            *TASKS,
            *SLOW_WORK,
            "/admin/",
            "/admin/jobs/queueitem/",
            "/admin/jobs/job/",
            "/admin/jobs/job/add/",
            "/admin/jobs/throttlepolicy/add/",
            f"/admin/jobs/outputconnection/{output}/clear/",
        ):
            assert page.goto(address).ok, address
            assert focus_defects(page) == [], address


def test_symbols_of_the_set_up_pages_have_names(browser, web, machine):
    make_hostile_rows()
    output = machine.database.value("SELECT id FROM jobs_outputconnection")
    with visitor(browser, web, viewport={"width": 400, "height": 800}) as page:
        page.goto("/admin/jobs/outputconnection/")
        expect(page.get_by_role("textbox", name="Search", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Search", exact=True)).to_be_visible()
        assert controls_without_name(page) == []

        page.goto(f"/admin/jobs/outputconnection/{output}/change/")
        page.get_by_role("link", name="More", exact=True).click()
        expect(page.get_by_role("link", name="History", exact=True)).to_be_visible()
        assert controls_without_name(page) == []


def controls_without_name(page):
    """Return links and buttons that have no name for a screen reader."""
    snapshot = page.locator("body").aria_snapshot()
    assert "- link " in snapshot
    assert "- button " in snapshot
    return re.findall(r"- (?:link|button):?$", snapshot, re.MULTILINE)


def test_a_job_is_made_started_and_aborted_by_keyboard_only(browser, web, serve):
    site = serve(pages=300, hosts=1, traps=0)
    with visitor(browser, web) as page:
        set_up_job(page, site.start_url, min_gap="2")
        page.goto("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        tab_to(page, "Site")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Site")).to_be_visible()

        tab_to(page, "Start")
        page.keyboard.press("Enter")
        expect(cell(page, "status")).to_have_text("Running", timeout=10_000)
        # The page is live: numbers change, and buttons come and go around the focused one.
        tab_to(page, "Abort")
        first = wait_for(lambda: amount(page, "processed"), saying="a document is processed")
        wait_for(lambda: amount(page, "processed") > first, saying="the number changes")
        assert page.evaluate("document.activeElement.textContent.trim()") == "Abort"
        page.keyboard.press("Enter")
        expect(cell(page, "status")).to_have_text("Not running", timeout=10_000)


def tab_to(page, text):
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    pytest.fail(f"no key leads to {text}")


def test_rows_of_a_live_list_that_change_places_keep_the_focus(browser, web):
    make_hostile_rows()
    with visitor(browser, web) as page:
        page.locator("[data-list=jobs] [data-key] a").first.focus()

        kept, order = page.evaluate(_REORDER)

        assert kept
        assert order == ["above", "own", "below"]


# Script that shows the focused row alone, then below another row, then between two rows.
_REORDER = """
async () => {
  const { show } = await import("/static/js/screen.js");
  const focused = document.activeElement;
  const list = document.querySelector("[data-list=jobs]");
  const rows = () => [...list.querySelectorAll(":scope > [data-key]")];
  rows()[0].dataset.key = "own";
  const shown = (...keys) => show(document.body, { jobs: keys.map((key) => ({ key })) });
  shown("own", "above", "below");
  shown("above", "below", "own");
  shown("above", "own", "below");
  return [document.activeElement === focused, rows().map((row) => row.dataset.key)];
}
"""


# --- A small world: the browser's loop runs in this thread, so the ORM works in another ------------


def make_hostile_rows():
    """Create a job and a document, both with hostile names, and return the document's key."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_make_hostile_rows).result()


def _make_hostile_rows():
    from django.db import connection
    from django.utils import timezone

    from jobs.bulk.models import BulkOperation
    from jobs.connectors.repository.base import hash_of
    from jobs.exports.models import Export
    from jobs.models import Activity, Job, OutputConnection, QueueItem, RepositoryConnection, Seed
    from tests.support.factories import make_lane

    url = f"http://hostile.test/{HOSTILE}"
    key = hash_of(url)
    try:
        repository = RepositoryConnection.objects.create(name="web of fill", connector="web")
        output = OutputConnection.objects.create(name="index of fill", connector="search")
        job = Job.objects.create(name=HOSTILE, repository=repository, reason=HOSTILE)
        job.outputs.set([output])
        lane = make_lane(Seed.objects.create(job=job, urls=[url]), HOSTILE, ready_at=None)
        QueueItem.objects.create(
            hash=key, job=job, lane=lane, identifier=url, stage=2, run_no=0, outcome=1, result_code="200"
        )
        Activity.objects.create(
            started_at=timezone.now(), repository_id=repository.pk, activity="fetch", entity=url, result_code="200"
        )
        filter_ = {"identifier": url * 2}
        Export.objects.create(task=1_000_000, what="documents", format="csv", filter=filter_, created_by=HOSTILE)
        BulkOperation.objects.create(
            task=1_000_001, operation="retry", job_id=job.pk, filter={"pattern": url * 2}, shown=1, created_by=HOSTILE
        )
        with connection.cursor() as cursor:
            cursor.execute(
                """
                INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language,
                                                 fetched_at, written_at, vector)
                VALUES (%s, %s, %s, %s, '', %s, 'text/html', 'en', now(), now(), to_tsvector('simple', 'hostile'))
                """,
                [output.pk, key, url, HOSTILE, f"hostile {HOSTILE}"],
            )
    finally:
        connection.close()
    return key


def job_id(database):
    return database.value("SELECT id FROM jobs_job")


def test_a_form_of_a_login_has_as_many_fields_as_the_login_needs(browser, web):
    login = "id_configuration_logins-0"
    with visitor(browser, web) as page:
        page.goto("/admin/jobs/repositoryconnection/add/")
        page.locator("#id_name").fill("guarded")
        for name, value in {"name": "door", "pages": "/in/", "hosts": "a.example", "page": "/login$"}.items():
            page.locator(f"#{login}-{name}").fill(value)
        page.locator("[data-records='configuration_logins-0-fields'] button").click()
        page.locator(f"#{login}-fields-0-name").fill("user")
        page.locator(f"#{login}-fields-1-name").fill("password")
        page.locator(f"#{login}-fields-1-secret").fill("sesame")
        page.locator("button[name=_continue]").click()

        expect(page.locator(f"#{login}-fields-0-name")).to_have_value("user")
        expect(page.locator(f"#{login}-fields-1-secret")).to_have_value(MASK)
        expect(page.locator(f"#{login}-fields-2-name")).to_have_value("")


def test_the_cluster_is_watched_and_a_node_drained_in_the_browser(browser, web, machine, serve):
    site = serve(pages=200)
    with visitor(browser, web) as page, visitor(browser, web) as elsewhere:
        set_up_job(elsewhere, site.start_url, min_gap="2")
        page.goto("/cluster/")
        managers = page.locator("[data-list=managers] > [data-key]")
        expect(managers).to_have_count(1)
        expect(page.locator(".crown:visible")).to_have_count(1)

        elsewhere.goto("/")
        elsewhere.get_by_role("button", name="Start", exact=True).click()
        expect(managers.locator(".groups [data-key]")).to_have_text([re.compile("brisk")], timeout=30_000)

        machine.start("runmanager", "--name", "second")
        second = managers.filter(has_text="second")
        expect(second).to_have_count(1, timeout=60_000)
        expect(page.locator("[data-list=events]")).to_contain_text("manager second is running")

        second.get_by_role("link", name="Drain").click()
        page.get_by_role("button", name="Drain").click()
        expect(page.locator(".message")).to_contain_text("The request is in progress")
        expect(second).to_have_count(0, timeout=60_000)
        expect(page.locator("[data-list=requests]")).to_contain_text("drain a node")


def test_distributed_jobs_are_watched_and_disabled_in_the_browser(browser, web, machine, tmp_path):
    environment = {"CRAWLCTL_DISTRIBUTED_JOBS": "tests.support.distributed_jobs:Diary", DIARY: str(tmp_path / "diary")}
    with visitor(browser, web) as page:
        page.goto("/cluster/jobs/")
        row = page.locator("[data-list=jobs] [data-key=diary]")

        machine.start("runjobs", **environment)
        expect(row.locator("[data-cell=shared]")).to_have_text("6 of 6 assigned", timeout=60_000)
        row.get_by_role("link", name="diary").click()
        expect(page.locator("[data-list=pool] [data-key]")).to_have_count(6)
        expect(page.locator("[data-list=nodes] [data-key]")).to_have_count(1)
        machine.start("runjobs", **environment)
        expect(page.locator("[data-list=nodes] [data-key]")).to_have_count(2, timeout=60_000)
        page.go_back()
        expect(row.locator("[data-cell=able]")).to_have_text("2", timeout=60_000)

        row.get_by_role("button", name="Disable").click()
        expect(row.locator("[data-cell=state]")).to_have_text("disabled", timeout=60_000)
        expect(row.locator("[data-cell=shared]")).to_have_text("0 of 6 assigned", timeout=60_000)
        row.get_by_role("button", name="Remove switch").click()
        expect(row.locator("[data-cell=shared]")).to_have_text("6 of 6 assigned", timeout=60_000)


def test_a_task_is_run_watched_and_cancelled_in_the_browser(browser, machine, tmp_path):
    kinds = "tests.support.task_kinds:KINDS"
    web = _address(
        machine.start("run", "--workers", 1, "--port", 8310, CRAWLCTL_ADMIN_PASSWORD=PASSWORD, CRAWLCTL_TASKS=kinds)
    )
    with visitor(browser, web) as page, visitor(browser, web) as elsewhere:
        page.goto("/tasks/run/")
        page.get_by_role("link", name="count", exact=True).click()
        page.get_by_label("Last words").fill(str(tmp_path / "seen"))
        page.get_by_label("Tags").fill("nightly")
        page.get_by_role("button", name="Run").click()
        expect(cell(page, "status")).to_have_text("running", timeout=30_000)
        first = cell(page, "progress").text_content()
        expect(cell(page, "progress")).to_have_text(re.compile("counted: [0-9]+"), timeout=30_000)
        expect(cell(page, "progress")).not_to_have_text(first, timeout=30_000)

        elsewhere.goto("/tasks/")
        running = elsewhere.locator("[data-list=running] > [data-key]")
        expect(running).to_have_count(1)
        page.get_by_role("button", name="Cancel task").click()
        expect(cell(page, "cancelling")).to_have_text("being cancelled by admin", timeout=30_000)
        (tmp_path / "seen").touch()

        # Without a reload, the task arrives in the archive.
        expect(cell(page, "status")).to_have_text("cancelled", timeout=30_000)
        expect(page.get_by_role("button", name="Run again")).to_have_count(1)
        expect(running).to_have_count(0, timeout=30_000)
        expect(elsewhere.locator("[data-list=ended] [data-cell=why]").first).to_have_text("cancelled")

        elsewhere.goto("/tasks/archived/?tag=nightly")
        elsewhere.get_by_role("link", name="Run all of these again …").click()
        expect(elsewhere.locator("main")).to_contain_text("1 task matches.")
        elsewhere.get_by_role("button", name="Run these tasks again").click()
        expect(elsewhere.locator(".message.success")).to_have_text("1 task is scheduled again.")


def test_the_effects_of_a_policy_are_shown_before_it_is_saved(browser, web):
    with visitor(browser, web) as page:
        page.goto("/admin/jobs/throttlepolicy/add/")
        page.get_by_label("Name").fill("gently")
        page.get_by_text("Add another rule").click()
        page.locator("#id_rules-0-pattern").fill("*.exmaple")
        page.locator("#id_rules-0-denies").check(force=True)
        page.get_by_role("button", name="Rehearse").click()

        expect(page.locator("#preview [data-reach]")).to_contain_text("*.exmaple matches none of these hosts.")
        page.locator("#id_rules-0-pattern").fill("*.example")
        page.locator("button[name=_save]").click()

        expect(page.get_by_text("2 at a time, one every 1 s")).to_be_visible()
        page.locator("#result_list").get_by_role("link", name="gently").click()
        expect(page.get_by_label("Denied hosts")).to_have_value("*.example")


def test_a_user_logs_in_and_out_at_the_provider_in_the_browser(browser, machine):
    port = free_port()
    web = f"http://127.0.0.1:{port}"
    with running_provider(f"{web}/login/provider/answer/") as provider:
        provider.behave(groups={"vera": ["watch"]})
        _address(machine.start("serve", "--port", port, CRAWLCTL_PASSWORD_LOGIN="no", **provider.environment))
        context = browser.new_context(base_url=web)
        context.add_cookies([{"name": "user", "value": "vera", "url": provider.issuer}])
        page = context.new_page()
        refused = []
        page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)

        page.goto("/hosts/?state=open")
        page.get_by_role("link", name="Log in with single sign-on").click()
        expect(page).to_have_url(f"{web}/hosts/?state=open")
        expect(page.get_by_role("link", name="vera")).to_be_visible()

        page.get_by_role("button", name="Log out").click()
        page.get_by_role("link", name="Log out there, too").click()
        page.get_by_role("button", name="Logout").click()
        expect(page).to_have_url(re.compile(f"^{web}/login/"))
        page.goto("/hosts/")
        expect(page.get_by_role("link", name="Log in with single sign-on")).to_be_visible()
        assert refused == []
        context.close()
