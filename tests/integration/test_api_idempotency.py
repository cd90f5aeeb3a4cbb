"""Proves that a request with an Idempotency-Key is carried out once, even if several clients repeat it."""

import datetime as dt
import threading

import pytest
from django.db import connections

from crawlctl.access.roles import ADMINISTRATOR
from jobs.duties.cleaning import clean
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import OutputConnection
from nodes.models import KeptAnswer
from tests.support.api import assert_problem, client_of, make_user, make_world

pytestmark = pytest.mark.django_db

OUTPUTS = "/api/v1/outputs/"
OUTPUT = {"name": "kept", "connector": "null"}
KEY = {"Idempotency-Key": "a-key-of-one-client"}


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


def test_an_object_is_created_once_and_the_answer_is_repeated(administrator):
    made = administrator.post(OUTPUTS, OUTPUT, headers=KEY)

    again = administrator.post(OUTPUTS, OUTPUT, headers=KEY)

    assert (again.status_code, again.json()) == (201, made.json())
    assert [again[name] for name in ("Location", "ETag")] == [made[name] for name in ("Location", "ETag")]
    assert ("Idempotency-Replayed" in made, again["Idempotency-Replayed"]) == (False, "true")
    assert OutputConnection.objects.count() == 1


def test_an_action_that_is_requested_twice_is_done_once(administrator):
    world = make_world()
    address = f"/api/v1/jobs/{world.job.pk}/start/"

    first, again = (administrator.post(address, headers=KEY) for _ in range(2))

    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert_problem(
        administrator.post(address), 409, "transition_refused", allowed=["abort", "restart", "restart-minimal"]
    )


def test_the_answer_to_a_deletion_is_repeated(administrator):
    address = f"{OUTPUTS}{administrator.post(OUTPUTS, OUTPUT).json()['id']}/"

    assert [administrator.delete(address, headers=KEY).status_code for _ in range(2)] == [204, 204]
    assert administrator.delete(address).status_code == 404


@pytest.mark.parametrize("other", [{"name": "other"}, {"connector": "search"}])
def test_an_idempotency_key_that_was_used_with_another_body_is_refused(administrator, other):
    administrator.post(OUTPUTS, OUTPUT, headers=KEY)

    assert_problem(administrator.post(OUTPUTS, {**OUTPUT, **other}, headers=KEY), 422, "key_reused")
    assert OutputConnection.objects.count() == 1


def test_an_idempotency_key_that_was_used_at_another_address_is_refused(administrator):
    administrator.post(OUTPUTS, OUTPUT, headers=KEY)

    refused = administrator.post("/api/v1/repositories/", {"name": "kept", "connector": "web"}, headers=KEY)

    assert_problem(refused, 422, "key_reused")


def test_the_same_key_of_two_users_means_two_requests(administrator):
    other = client_of(ADMINISTRATOR, ADMINISTRATOR)

    answers = [
        client.post(OUTPUTS, {**OUTPUT, "name": name}, headers=KEY)
        for client, name in ((administrator, "a"), (other, "b"))
    ]

    assert [answer.status_code for answer in answers] == [201, 201]


def test_the_key_of_a_refused_request_can_be_used_again(administrator):
    assert_problem(administrator.post(OUTPUTS, {"name": ""}, headers=KEY), 400, "invalid")

    assert administrator.post(OUTPUTS, OUTPUT, headers=KEY).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "kéy", "a\tb"])
def test_a_header_that_cannot_be_an_idempotency_key_is_refused(administrator, key):
    refused = administrator.post(OUTPUTS, OUTPUT, HTTP_IDEMPOTENCY_KEY=key)

    assert_problem(refused, 400, "invalid", fields=["Idempotency-Key"])
    assert not OutputConnection.objects.exists()


def test_an_answer_is_repeated_although_the_etag_has_changed(administrator):
    made = administrator.post(OUTPUTS, OUTPUT)
    change = {"headers": {**KEY, "If-Match": made["ETag"]}}

    changed, again = (administrator.patch(made["Location"], {"name": "new"}, **change) for _ in range(2))

    assert (again.status_code, again.json()) == (200, changed.json())


def test_the_key_of_a_refused_cluster_request_can_be_used_again(administrator):
    for _ in range(2):
        assert_problem(administrator.post("/api/v1/cluster/rebalance/", {}, headers=KEY), 503, "no_main")

    assert not KeptAnswer.objects.exists()


def test_a_request_whose_first_answer_is_missing_is_refused(administrator):
    administrator.post(OUTPUTS, OUTPUT, headers=KEY)
    KeptAnswer.objects.update(status=None)

    assert_problem(administrator.post(OUTPUTS, OUTPUT, headers=KEY), 409, "key_in_use")


@pytest.mark.django_db(transaction=True)
def test_many_equal_requests_have_one_effect_and_all_are_answered(administrator):
    start, answers = threading.Barrier(6), []

    def send():
        start.wait()
        answers.append(administrator.post(OUTPUTS, OUTPUT, headers=KEY))
        connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status_code for answer in answers] == [201] * 6
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer for answer in answers) == 5
    assert OutputConnection.objects.count() == 1


def test_answers_kept_for_repetitions_are_forgotten_after_a_day(connection):
    user = make_user()
    for key, age in (("old", 25), ("young", 23)):
        made_at = dt.datetime.now(tz=dt.UTC) - dt.timedelta(hours=age)
        KeptAnswer.objects.create(user=user, key=key, fingerprint="", made_at=made_at)

    assert clean(connection, SUBJECTS["answers"], now=dt.datetime.now(tz=dt.UTC)) == 1

    assert list(KeptAnswer.objects.values_list("key", flat=True)) == ["young"]
