"""Proves in a real browser that a first job needs only three fields, and that errors are shown at their field."""

import re

import pytest
from playwright.sync_api import expect

from tests.acceptance.test_browser import administrator, browser, cell, visitor, web  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.debian("chromium-headless-shell"), pytest.mark.usefixtures("administrator")]


def test_a_first_job_is_checked_made_started_and_duplicated(browser, web, serve):  # noqa: F811
    site = serve(pages=30, hosts=1, traps=0)
    with visitor(browser, web, timezone_id="Europe/Berlin", viewport={"width": 1000, "height": 700}) as page:
        page.goto("/")
        page.get_by_role("link", name="New job").click()
        address = page.get_by_role("textbox", name="Address", exact=True)

        # Nothing is typed: the error is at the field, which has the focus.
        page.locator("button[name=_save]").click()
        expect(page.get_by_text("This field is required.")).to_be_visible()
        expect(address).to_be_focused()

        address.fill(site.start_url)
        page.get_by_label("When").select_option(label="every day")
        starts = page.get_by_role("list", name="Next starts").get_by_role("listitem")
        expect(starts).to_have_count(5)
        expect(starts.first).to_contain_text("02:00 Europe/Berlin")

        # A private address gets no request without permission, which is a field below "More".
        page.get_by_role("button", name="Check the address").click()
        expect(page.get_by_text("ADDRESS_FORBIDDEN")).to_be_visible()
        page.get_by_text("More", exact=True).click()
        page.locator("#id_specification_allow_private_networks").check(force=True)
        page.get_by_role("button", name="Check the address").click()
        expect(page.get_by_text(re.compile("^200 OK text/html"))).to_be_visible(timeout=15_000)

        page.locator("button[name=_save]").click()
        expect(page).to_have_url(re.compile(r"/jobs/\d+/$"))
        page.get_by_role("button", name="Start", exact=True).click()
        expect(cell(page, "status")).to_have_text("Running", timeout=20_000)

        page.get_by_role("link", name="Duplicate").click()
        expect(address).to_have_value(site.start_url)
        expect(page.get_by_label("When")).to_have_value("windows")
