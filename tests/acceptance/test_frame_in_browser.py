"""Proves in a real browser that the frame of all pages works: palette, breadcrumbs, messages and local times."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import expect

from jobs.models import Job
from tests.acceptance.test_browser import (  # noqa: F401 (fixtures)
    PASSWORD,
    _address,
    administrator,
    browser,
    make_hostile_rows,
    visitor,
)

pytestmark = [pytest.mark.debian("chromium-headless-shell"), pytest.mark.usefixtures("administrator")]


def in_thread(function):
    """
    Call the function in another thread, because the event loop of the browser runs in this one. Return the result.
    """

    def call():
        try:
            return function()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def go(page, key, text, found):
    """Open the palette by a key, type, and go to a result by keys alone."""
    # No script listens to the key before the page is loaded.
    page.wait_for_load_state()
    page.keyboard.press(key)
    page.keyboard.type(text)
    option = page.get_by_role("option").filter(has_text=found)
    expect(option).to_have_count(1)
    while option.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_the_palette_finds_pages_by_keys_and_times_are_local(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    make_hostile_rows()
    in_thread(lambda: Job.objects.update(name="nightly handbook"))
    with visitor(browser, web, timezone_id="Asia/Tokyo") as page:
        go(page, "/", "thrott", "Throttle policies")
        expect(page).to_have_url(f"{web}/admin/jobs/throttlepolicy/")
        # The set-up pages have the frame and the palette of all other pages.
        expect(page.get_by_role("navigation", name="Pages").locator("[aria-current]")).to_have_text("Hosts")
        go(page, "Control+k", "handb", "nightly handbook")
        expect(page).to_have_url(re.compile("/jobs/[0-9]+/$"))
        expect(page.get_by_role("navigation", name="Breadcrumb")).to_contain_text("nightly handbook")
        page.keyboard.press("/")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        # The focus goes into the dialog, and returns to the button that opened it.
        opener = page.get_by_role("button", name="Find")
        opener.press("Enter")
        expect(page.get_by_role("combobox", name="Find")).to_be_focused()
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()

        page.get_by_role("button", name="Start", exact=True).click()
        message = page.locator(".message.success")
        expect(message).to_contain_text("nightly handbook: Starting up.")
        message.get_by_role("button", name="Close this message").click()
        expect(message).to_have_count(0)

        # Tokyo is nine hours ahead. A pointer over a time shows it in UTC.
        time = page.locator(".journal time").first
        utc = re.fullmatch(r"[0-9-]{10} ([0-9]{2})(:[0-9:]+) UTC", time.get_attribute("title"))
        hour = (int(utc[1]) + 9) % 24
        expect(time).to_have_text(re.compile(f"{hour:02d}{utc[2]}$"))
        expect(page.locator(".foot")).to_contain_text("Asia/Tokyo")


def test_the_top_bar_has_one_line_in_each_language_despite_a_long_name(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    with visitor(browser, web, viewport={"width": 1280, "height": 900}) as page:
        in_thread(lambda: User.objects.update(username="a.long.name.of.an.administrator@example.org"))
        for language in ("de", "en", "zh-hans"):
            page.goto("/account/")
            page.locator(f"button[name=language][value={language}]").click()

            heights = page.locator(".top").evaluate("bar => [bar, bar.querySelector('a')].map(one => one.offsetHeight)")
            assert heights[0] < 1.5 * heights[1], language


def test_the_german_top_bar_has_at_most_two_lines_on_a_narrow_screen(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    with visitor(browser, web, viewport={"width": 900, "height": 900}) as page:
        page.goto("/account/")
        page.locator("button[name=language][value=de]").click()

        heights = page.locator(".top").evaluate("bar => [bar, bar.querySelector('a')].map(one => one.offsetHeight)")
        assert heights[0] < 2.5 * heights[1]


def test_a_form_that_is_older_than_the_login_gets_the_present_csrf_token(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    make_hostile_rows()
    job = in_thread(Job.objects.get)
    with visitor(browser, web) as page:
        page.goto(f"/jobs/{job.pk}/")
        other = page.context.new_page()
        other.goto("/")
        other.get_by_role("button", name="Log out").click()
        other.get_by_label("Username").fill("admin")
        other.get_by_label("Password").fill(PASSWORD)
        other.get_by_role("button", name="Log in").click()
        expect(other).to_have_url(f"{web}/")

        page.get_by_role("button", name="Start", exact=True).click()

        expect(page.locator(".message.success")).to_be_visible()


def log_in(page, user, password=PASSWORD):
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def send_without_a_session(page):
    """Type into the form of a policy, and send it after the session has ended."""
    page.goto("/admin/jobs/throttlepolicy/add/")
    page.locator("#id_name").fill("gently")
    page.locator("#id_min_gap").fill("7")
    page.evaluate(
        """() => {
          const secret = Object.assign(document.createElement("input"), { type: "password", name: "secret", value: "hush" });
          document.querySelector("#id_name").form.append(secret);
        }"""
    )
    page.context.clear_cookies(name="sessionid")
    page.locator("[name=_save]").first.click()
    expect(page).to_have_url(re.compile("/login/"))


def test_text_of_a_form_whose_session_ended_is_restored_after_the_login(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    in_thread(lambda: User.objects.create_superuser("olga", password=PASSWORD))
    with visitor(browser, web) as page:
        send_without_a_session(page)
        kept = page.evaluate(_KEPT)
        log_in(page, "admin", "wrong")
        expect(page.locator(".message.warning").last).to_be_visible()
        log_in(page, "admin")

        expect(page.locator("#id_name")).to_have_value("gently")
        expect(page.locator("#id_min_gap")).to_have_value("7")
        expect(page.locator(".message")).to_contain_text("Your text is in the form again")
        assert ("gently" in kept, "hush" in kept, page.evaluate(_KEPT)) == (True, False, None)
        page.locator("[name=_save]").first.click()
        expect(page.locator(".message.success")).to_be_visible()
        assert page.evaluate(_KEPT) is None

        send_without_a_session(page)
        log_in(page, "olga")

        expect(page.locator("#id_name")).to_have_value("")
        assert page.evaluate(_KEPT) is None


def test_added_rows_of_a_form_whose_session_ended_return_after_the_login(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    login = "configuration_logins-0"
    with visitor(browser, web) as page:
        page.goto("/admin/jobs/repositoryconnection/add/?connector=web")
        page.locator("#id_name").fill("guarded")
        page.locator(f"#id_{login}-name").fill("door")
        page.locator(f"[data-records='{login}-fields'] button").click()
        page.locator(f"#id_{login}-fields-1-name").fill("colour")
        page.locator("[data-records='configuration_logins'] > p button").click()
        page.locator("#id_configuration_logins-1-name").fill("gate")
        page.context.clear_cookies(name="sessionid")
        page.locator("[name=_save]").first.click()
        log_in(page, "admin")

        expect(page.locator(".message")).to_contain_text("Your text is in the form again")
        expect(page.locator(f"#id_{login}-name")).to_have_value("door")
        expect(page.locator(f"#id_{login}-fields-1-name")).to_have_value("colour")
        expect(page.locator("#id_configuration_logins-1-name")).to_have_value("gate")

        page.goto("/admin/jobs/throttlepolicy/add/")
        page.locator("#id_name").fill("two rules")
        for number in range(2):
            page.locator("#rules-data .add-row").click()
            page.locator(f"#id_rules-{number}-pattern").fill(f"host{number}.example")
        page.context.clear_cookies(name="sessionid")
        page.locator("[name=_save]").first.click()
        log_in(page, "admin")

        expect(page.locator(".message")).to_contain_text("Your text is in the form again")
        for number in range(2):
            expect(page.locator(f"#id_rules-{number}-pattern")).to_have_value(f"host{number}.example")
        expect(page.locator("[name=rules-TOTAL_FORMS]")).to_have_value("2")


_KEPT = "sessionStorage.getItem('crawlctl.typed')"


def test_a_message_of_success_disappears_and_a_warning_stays(browser, machine):  # noqa: F811
    web = _address(machine.start("serve", "--port", 0))
    make_hostile_rows()
    job = in_thread(Job.objects.get)
    with visitor(browser, web) as page:
        page.clock.install()
        page.goto(f"/jobs/{job.pk}/")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.locator(".message.success")).to_be_visible()
        page.mouse.move(0, 0)
        page.clock.fast_forward(20_000)
        expect(page.locator(".message.success")).to_have_count(0)

        # A second start is refused, because the job is starting.
        token = page.locator("input[name=csrfmiddlewaretoken]").first.get_attribute("value")
        page.evaluate(
            """([address, token]) => {
                const form = document.createElement("form");
                form.method = "post"; form.action = address;
                for (const [name, value] of [["csrfmiddlewaretoken", token], ["transition", "start"]]) {
                    const field = document.createElement("input");
                    field.name = name; field.value = value; form.append(field);
                }
                document.body.append(form); form.submit();
            }""",
            [f"/jobs/{job.pk}/transition/", token],
        )
        expect(page.get_by_role("alert")).to_be_visible()
        page.clock.fast_forward(60_000)
        expect(page.get_by_role("alert")).to_be_visible()
