"""Proves that the API accepts seed lists of 100,000 addresses: as text, in pages, and inside a job."""

import pytest
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from jobs.duties.allocate import allocate_groups
from jobs.duties.start import prepare_runs, seed_seeds
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Job, QueueItem, Seed
from jobs.verbs import control
from jobs.verbs.seed_lists import MOST_ADDRESSES
from tests.support.api import assert_problem, client_of, make_job, set_phase, token_client_of
from tests.support.stepping import Main

pytestmark = pytest.mark.django_db

MANY = [f"http://host{number % 1000}.test/a/path/of/usual/length?page={number}" for number in range(MOST_ADDRESSES)]


@pytest.fixture
def job():
    return make_job()


@pytest.fixture
def address(job):
    return f"/api/v1/seeds/{job.seeds.get().pk}/urls/"


@pytest.fixture
def administrator():
    return token_client_of(ADMINISTRATOR)


def send(client, address, text, *, method="PUT", **headers):
    body = text if isinstance(text, bytes) else text.encode()
    return client.generic(method, address, body, content_type="text/plain", headers=headers)


def stored():
    return Seed.objects.get().urls


def test_a_hundred_thousand_addresses_are_stored_and_returned_as_given(administrator, address):
    text = "".join(f"{url}\n" for url in MANY)

    answer = send(administrator, address, text)

    assert answer.status_code == 200, answer.content[:1000]
    assert answer.json()["urls_in_all"] == MOST_ADDRESSES
    downloaded = administrator.get(address)
    assert downloaded.content.decode() == text
    assert downloaded["Content-Type"] == "text/plain; charset=utf-8"


def test_a_job_with_a_hundred_thousand_addresses_survives_a_round_trip(administrator, job):
    Seed.objects.update(urls=MANY)
    address = f"/api/v1/jobs/{job.pk}/"
    shown = administrator.get(address)

    answer = administrator.put(address, shown.json(), headers={"If-Match": shown["ETag"]})

    assert answer.status_code == 200, answer.content[:1000]
    assert answer.json()["seeds"] == shown.json()["seeds"]
    assert stored() == MANY


def test_a_seed_list_is_returned_in_pages(administrator, address):
    send(administrator, address, "http://a.test/\n\n  http://b.test/  \r\n")

    answer = send(administrator, address, "http://c.test/", method="POST")

    assert answer.json()["urls_in_all"] == 3
    assert stored() == ["http://a.test/", "http://b.test/", "http://c.test/"]
    # The list is read in the form in which it is sent.
    assert send(administrator, address, administrator.get(address).content).status_code == 200
    assert stored() == ["http://a.test/", "http://b.test/", "http://c.test/"]


def test_invalid_lines_of_a_seed_list_are_named_and_nothing_is_stored(administrator, address):
    before = stored()
    good = [f"http://docs.test/{number}" for number in range(5_000)]
    lines = [*good[:41], "gopher://docs.test/", *good[41:3000], "", "not an address", *good[3000:]]

    problem = assert_problem(
        send(administrator, address, "\n".join(lines)), 400, "invalid", fields=["lines.42", "lines.3003"]
    )

    assert "gopher" in problem["fields"]["lines.42"][0]
    assert stored() == before


def test_repeated_lines_are_stored_once_and_counted(administrator, address):
    first = send(administrator, address, "http://a.test/\nhttp://b.test/\nhttp://a.test/\n").json()
    added = send(administrator, address, "http://b.test/\n\nhttp://b.test/\nhttp://c.test/\n", method="POST").json()

    assert stored() == ["http://a.test/", "http://b.test/", "http://c.test/"]
    assert (
        "1 seed address is a repeat of an address in the same list. Each address is stored once." in first["warnings"]
    )
    assert added["urls_in_all"] == 3
    assert (
        "2 seed addresses are repeats of an address in the same list. Each address is stored once." in added["warnings"]
    )


def test_only_the_first_of_many_invalid_lines_are_named(administrator, address):
    refused = send(administrator, address, "gopher://docs.test/\n" * 3_000)

    assert_problem(refused, 400, "invalid", fields=[*(f"lines.{number}" for number in range(1, 21)), "lines"])


@pytest.mark.parametrize(
    ("text", "code", "fields"),
    [
        ("", "invalid", ["urls"]),
        ("\n \n", "invalid", ["urls"]),
        ("\n".join([*MANY, "http://a.test/"]), "invalid", ["urls"]),
        (f"http://a.test/{'x' * 10_000}", "invalid", ["lines.1"]),
        ("http://a.test/\0", "invalid", ["lines.1"]),
        (b"http://a.test/\nhttp://\xff.test/", "parse_error", None),
    ],
)
def test_a_text_in_place_of_a_seed_list_is_refused(administrator, address, text, code, fields):
    before = stored()

    assert_problem(send(administrator, address, text), 400, code, fields=fields)

    assert stored() == before


def test_a_body_above_the_limit_is_refused_also_with_a_token(administrator, address):
    for method in ("PUT", "POST"):
        assert_problem(send(administrator, address, "x" * 17_000_000, method=method), 413, "too_large")
    assert_problem(administrator.post("/api/v1/jobs/", {"name": "x" * 17_000_000}), 413, "too_large")


def test_a_large_body_without_a_login_is_refused():
    body = {"username": "x" * 70_000, "password": "x"}

    assert_problem(APIClient().post("/api/v1/token/", body), 413, "too_large")


def test_a_seed_list_that_changed_meanwhile_is_not_overwritten(administrator, address, job):
    seen = administrator.get(address)["ETag"]
    changed = send(administrator, address, "http://a.test/")

    refused = send(administrator, address, "http://b.test/", **{"If-Match": seen})

    assert_problem(refused, 412, "precondition_failed")
    assert administrator.get(address)["ETag"] == changed["ETag"] == refused["ETag"] != seen
    assert administrator.get(f"/api/v1/seeds/{job.seeds.get().pk}/")["ETag"] == changed["ETag"]
    assert send(administrator, address, "http://b.test/", **{"If-Match": changed["ETag"]}).status_code == 200


def test_seed_addresses_are_added_to_a_running_job_and_not_to_a_stopping_job(administrator, address, job):
    set_phase(job, phase=Phase.ACTIVE)
    assert send(administrator, address, "http://b.test/", method="POST").status_code == 200

    set_phase(job, phase=Phase.SHUTTING_DOWN)
    assert_problem(send(administrator, address, "http://c.test/", method="POST"), 400, "invalid", fields=["seeds"])


def test_only_users_who_may_change_jobs_change_seed_lists(address):
    operator = client_of(OPERATOR)

    assert operator.get(address).status_code == 200
    assert_problem(send(operator, address, "http://b.test/"), 403, "permission_denied")


def test_the_list_of_a_missing_seed_is_not_found(administrator):
    assert_problem(send(administrator, "/api/v1/seeds/77/urls/", "http://b.test/"), 404, "not_found")


def test_a_run_begins_with_each_address_of_a_very_long_list(connection):
    # Each statement takes all addresses of a seed, so its number of parameters does not depend on the number of
    # addresses.
    some = MANY[:20_000]
    job = make_job(urls=some)
    main = Main(connection)
    control.start(job.pk, made_by="a test", now=main.now)

    main.step(allocate_groups, prepare_runs)
    main.step(allocate_groups)
    main.step(seed_seeds)

    assert QueueItem.objects.filter(job=job, run_no=1, stage=Stage.PENDING).count() == len(some)
    assert Job.objects.get().phase == Phase.ACTIVE
