"""Proves that each change by the API, pages and commands checks an ETag and is recorded in a journal."""

import copy
import functools
import getpass

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from crawlctl.access.accounts import FIRST_START, ensure_administrator
from crawlctl.access.adminsite import site
from crawlctl.access.roles import ADMINISTRATOR
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection, ServiceToken
from jobs.models import Job, JobEvent
from jobs.notices.admin import OF_MODELS
from nodes.admin.lists import OwnedList
from nodes.models import ClusterRequest, NodeEvent
from tests.integration.test_roles import address
from tests.support.api import PASSWORD, assert_problem, client_of, make_user, make_world
from tests.support.api_description import requests
from tests.support.changes_by_api import CHANGES, OF_LOG_INS, PREVIEWS, authorize, make_unused
from tests.support.tables import each_row
from tests.support.task_kinds import NAMED

pytestmark = pytest.mark.django_db

SAFE = {"get", "head", "options"}

each_change = each_row("name", sorted(CHANGES))
each_change_of_a_thing = each_row("name", sorted(name for name in CHANGES if CHANGES[name].thing))


@functools.cache
def unsafe():
    """Return the method and the path of each operation that may change something."""
    return {name: (method, path) for name, (method, path) in requests().items() if method not in SAFE}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Let requests to the cluster return without a wait, since the main manager of these tests never answers."""
    monkeypatch.setattr("nodes.membership.requests._ANSWER_TIMEOUT", 0)


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


class CheckedChange:
    """Prepared objects, and an administrator that carries out one change of them."""

    def __init__(self, name, world, administrator):
        self.change = CHANGES[name]
        self.method, self._path = unsafe()[name]
        # The rows of a table share the fixtures. After each row, its writes are rolled back.
        self.client, self.world = administrator, copy.deepcopy(world)
        self.change.prepare(self.world)
        self.body = self.change.body_for(self.world, self.client)

    def ask(self, **headers):
        sent = (
            {"data": self.body, "content_type": "text/plain"} if isinstance(self.body, bytes) else {"data": self.body}
        )
        return getattr(self.client, self.method)(address(self._path, self.world), **sent, headers=headers)

    def tag(self):
        return self.client.get(self.change.thing(self.world)).headers.get("ETag")


def lines():
    """
    Return the author and the text of each journal line, and of each request to the cluster, which has a separate list.
    """
    jobs = [(event.made_by, f"{event.message} {event.detail}") for event in JobEvent.objects.order_by("pk")]
    others = [(event.detail.get("by"), f"{event.message} {event.detail}") for event in NodeEvent.objects.order_by("pk")]
    requests = [(request.asked_by, str(request)) for request in ClusterRequest.objects.order_by("pk")]
    return jobs + others + requests


def test_the_table_of_changes_lists_every_operation_that_changes_something():
    assert set(CHANGES) | PREVIEWS | OF_LOG_INS == set(unsafe())


@each_change
def test_each_change_is_recorded_in_a_journal_with_its_author(name, world, administrator):
    asking = CheckedChange(name, world, administrator)
    before = lines()

    answer = asking.ask()

    assert 200 <= answer.status_code < 300, answer.content
    added = lines()
    for line in before:
        added.remove(line)
    assert {author for author, _ in added} == {"a administrator"}


@each_change_of_a_thing
def test_a_change_with_an_etag_needs_the_present_etag(name, world, administrator):
    asking = CheckedChange(name, world, administrator)
    before, tag = lines(), asking.tag()

    refused = asking.ask(**{"If-Match": '"of something else"'})

    assert tag is not None
    assert_problem(refused, 412, "precondition_failed")
    assert refused["ETag"] == tag
    assert (lines(), asking.tag()) == (before, tag)

    answer = asking.ask(**{"If-Match": tag})

    assert 200 <= answer.status_code < 300, answer.content


def test_every_resource_with_put_patch_or_delete_has_an_etag():
    of_things = {name for name, (method, _) in unsafe().items() if method in {"put", "patch", "delete"}}

    assert {name for name in of_things - OF_LOG_INS if CHANGES[name].thing is None} == set()


# --- Pages and commands ----------------------------------------------------------------------------


def test_each_deletion_on_set_up_pages_is_recorded_in_a_journal():
    world = make_world()
    make_unused(world)
    things = {type(found): found for found in (world.policy, world.repository, world.output)}
    things[User] = make_user(name="otto")
    authorize(world)
    things |= {
        AuthorityGroup: AuthorityGroup.objects.get(pk=world.authority_group),
        AuthorityConnection: AuthorityConnection.objects.get(),
        MappingConnection: MappingConnection.objects.get(),
        ServiceToken: ServiceToken.objects.get(),
    }
    root = Client()
    root.force_login(make_user(name="root", is_superuser=True, is_staff=True))

    # A job is deleted by a transition, which the table of changes contains. No form deletes the rows of the system.
    for model in {model for model, page in site._registry.items() if not isinstance(page, OwnedList)} - {
        Job,
        *OF_MODELS,
    }:
        before = lines()
        page = f"admin:{model._meta.app_label}_{model._meta.model_name}_delete"
        root.post(reverse(page, args=[things[model].pk]), {"post": "yes"})

        added = [line for line in lines() if line not in before]
        assert [author for author, _ in added] == ["root"], model


def test_the_first_administrator_is_recorded_without_a_password():
    message = ensure_administrator()

    ((author, line),) = lines()
    assert author == FIRST_START
    assert line.startswith("user admin was created by the first start")
    assert message.rpartition(" ")[2] not in line
    assert "pbkdf2" not in line


def test_a_later_start_records_no_administrator_in_the_journal():
    ensure_administrator()
    before = lines()

    ensure_administrator()

    assert lines() == before


def test_a_password_set_by_a_command_is_recorded_without_the_password(monkeypatch):
    make_user(name="otto", password=PASSWORD)
    monkeypatch.setattr(getpass, "getuser", lambda: "vera")
    monkeypatch.setattr(getpass, "getpass", lambda prompt: "sentinel is long")

    call_command("changepassword", "otto")

    assert User.objects.get(username="otto").check_password("sentinel is long")
    ((author, line),) = lines()
    assert author == "vera"
    assert line.startswith("user otto was changed by vera: password (secret) → (another secret)")
    assert "sentinel" not in line
    assert "pbkdf2" not in line


def test_a_superuser_made_by_a_command_is_recorded(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "vera")

    call_command("createsuperuser", "--noinput", "--username", "otto", "--email", "otto@docs.test")

    assert [author for author, _ in lines()] == ["vera"]
