"""
Proves the frame of all pages: the navigation bar, the breadcrumbs, and the palette (search for pages and objects).
"""

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, reverse

from crawlctl.web.navigation import AREAS, find_place
from jobs.queries.typed_search import find
from tests.integration.test_pages import make_document
from tests.integration.test_roles_on_pages import PAGES
from tests.support.api import make_node, make_user
from tests.support.factories import make_job
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

# Pages that are not in the navigation bar: the user's name leads to them.
OUTSIDE = {"account", "api-token-new", "api-token-revoke", "settings"}


def visit(role=None):
    """Return a client of a user with this role, or of a superuser if no role is given."""
    client = Client()
    client.force_login(make_user(role) if role else User.objects.create_superuser("admin"))
    return client


def found(client, text):
    answer = client.get("/find/", {"q": text}).json()
    return {(one["kind"], one["name"]) for one in answer["results"]}


def current(html, label):
    """Return the items that a navigation marks as the present page."""
    nav = re.search(rf'<nav[^>]*aria-label="{label}".*?</nav>', html, re.DOTALL)
    return re.findall(r'aria-current="page">([^<]*)', nav[0]) if nav else []


# --- The bar -------------------------------------------------------------------------------------


def test_each_page_belongs_to_one_item_of_the_navigation():
    names = {pattern.name for pattern in PAGES} | {"drills", "manual", "documentation"}
    site = next(one for one in get_resolver().url_patterns if getattr(one, "namespace", None) == "admin")
    names |= {f"admin:{pattern.name}" for pattern in site.url_patterns if getattr(pattern, "name", None)}

    assert {name for name in names - OUTSIDE if find_place(name) is None} == set()


@each_row("place", [place.view for area in AREAS for place in area.places])
def test_the_navigation_bar_marks_the_area_of_each_page(place):
    area = next(one for one in AREAS if place in {known.view for known in one.places})

    if place == "manual":
        # The compiled documentation has another frame.
        return
    html = visit().get(reverse(place), follow=True).content.decode()

    assert current(html, "Pages") == [str(area.label)]
    if len(area.places) > 1:
        assert current(html, str(area.label)) == [
            str(next(known.label for known in area.places if known.view == place))
        ]


def test_set_up_pages_have_the_frame_and_breadcrumbs_with_names_as_typed():
    job = make_job("my own job")

    html = visit().get(f"/admin/jobs/job/{job.pk}/change/").content.decode()

    trail = re.search(r'aria-label="Breadcrumb".*?</nav>', html, re.DOTALL)[0]
    assert re.findall(r">([^<>\n]+)</", trail) == ["Jobs", "my own job"]
    assert current(html, "Pages") == ["Jobs"]
    assert "css/shell.css" in html
    assert 'id="palette"' in html


def test_a_page_below_a_job_links_back_to_the_job():
    job = make_job("my own job")

    html = visit("viewer").get(f"/jobs/{job.pk}/removals/").content.decode()

    trail = re.search(r'aria-label="Breadcrumb".*?</nav>', html, re.DOTALL)[0]
    assert re.findall(r">([^<>\n]+)</", trail) == ["Jobs", "my own job", "Removals"]


def test_viewers_see_no_set_up_in_the_navigation_bar():
    html = visit("viewer").get("/").content.decode()

    assert ">Set-up<" not in html
    assert ">Hosts<" in html


# --- The palette ---------------------------------------------------------------------------------


def test_the_palette_finds_each_kind_of_object_by_a_part_of_its_name():
    job = make_job("nightly handbook")
    make_document(job, "https://docs.test/a")
    make_node("worker-77")
    client = visit("viewer")

    assert ("Job", "nightly handbook") in found(client, "hand")
    assert ("Host", "docs.test") in found(client, "docs.t")
    assert ("Document", "https://docs.test/a") in found(client, "docs.test/a")
    assert ("Document", "https://docs.test/a") in found(client, "https://docs.test/a")
    assert ("Node", "worker-77") in found(client, "worker-7")
    assert ("Page", "Throttle policies") in found(client, "pol")


def test_the_palette_offers_only_what_the_role_may_open():
    assert ("Page", "Users") in found(visit(), "users")
    assert ("Page", "Users") not in found(visit("viewer"), "users")

    User.objects.create_user("nobody", password="a long phrase")
    stranger = Client()
    stranger.force_login(User.objects.get(username="nobody"))
    assert not Group.objects.filter(user__username="nobody").exists()
    assert stranger.get("/find/", {"q": "a"}).status_code == 403
    assert Client().get("/find/", {"q": "a"}).status_code == 302


def test_the_palette_offers_the_account_page_only_to_users_with_a_role():
    User.objects.create_user("ned", password="a long phrase").user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="view_job")
    )
    without_role = Client()
    without_role.force_login(User.objects.get(username="ned"))

    assert ("Page", "Your account") in found(visit("viewer"), "account")
    assert ("Page", "Your account") not in found(without_role, "account")


@each_row(("address", "is_dated"), [("/", False), ("/nodes/", False), ("/jobs/", True), ("/runs/", True)])
def test_a_page_without_live_updates_shows_the_time_of_its_data(address, is_dated):
    page = visit("viewer").get(address).content.decode()

    assert ("Reload the page to see changes." in page) == is_dated


@each_row("text", ["", " ", "'", "%", "a\0b", "://", "/", "x" * 5_000, "\N{SNOWMAN}.\N{SNOWMAN}/", "a & b | !c:*"])
def test_the_palette_answers_any_text(text):
    assert visit("viewer").get("/find/", {"q": text}).status_code == 200


def test_the_palette_needs_as_many_queries_for_many_jobs_as_for_one():
    make_job("nightly 0")
    with CaptureQueriesContext(connection) as few:
        find("nightly")
    for number in range(1, 30):
        make_job(f"nightly {number}")

    with CaptureQueriesContext(connection) as many:
        found_jobs = find("nightly").jobs

    assert len(many) == len(few)
    assert len(found_jobs) == 5
