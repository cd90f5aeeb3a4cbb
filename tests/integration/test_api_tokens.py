"""
A user gets a token for a password. A token ends with its user, its age or a logout. Guesses of passwords are slowed
down.
"""

import datetime as dt
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import authenticate
from django.db import connection
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.test import APIClient

from crawlctl.access import logins
from crawlctl.access.roles import VIEWER
from crawlctl.access.tokens import MOST_OF_A_USER
from crawlctl.models import LoginAttempt
from tests.support.api import PASSWORD, assert_problem, client_of, make_user
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

TOKEN = "/api/v1/token/"
JOBS = "/api/v1/jobs/"


@pytest.fixture
def user():
    return make_user(VIEWER, name="vera", password=PASSWORD)


@pytest.fixture
def quick_passwords(settings):
    """Use a fast password hash, for tests that try many passwords."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def log_in(password=PASSWORD, name="vera", **extra):
    return APIClient().post(TOKEN, {"username": name, "password": password}, **extra)


def client_with(token, scheme="Token"):
    client = APIClient(enforce_csrf_checks=True)
    client.credentials(HTTP_AUTHORIZATION=f"{scheme} {token}")
    return client


def test_a_password_gives_a_token_for_the_api(user):
    answer = log_in()

    assert answer.status_code == 201
    assert answer["Location"].endswith(TOKEN)
    assert dt.datetime.fromisoformat(answer.json()["expires_at"]) > timezone.now()
    assert client_with(answer.json()["token"]).get(JOBS).status_code == 200


def test_the_database_holds_no_usable_token(user):
    token = log_in().json()["token"]

    (row,) = AuthToken.objects.values()

    assert token not in str(row)
    assert row["digest"] != token


def test_a_token_is_invalid_after_a_logout(user):
    client, other = client_with(log_in().json()["token"]), client_with(log_in().json()["token"])

    assert client.delete(TOKEN).status_code == 204

    assert_problem(client.get(JOBS), 401, "authentication_failed")
    assert other.get(JOBS).status_code == 200


def test_an_expired_token_gives_no_access(user):
    client = client_with(log_in().json()["token"])
    AuthToken.objects.update(expiry=timezone.now() - dt.timedelta(seconds=1))

    assert_problem(client.get(JOBS), 401, "authentication_failed")


def test_the_token_of_a_disabled_user_gives_no_access(user):
    client = client_with(log_in().json()["token"])
    user.is_active = False
    user.save()

    assert_problem(client.get(JOBS), 401, "authentication_failed")
    assert_problem(log_in(), 401, "authentication_failed")


def test_the_permissions_of_a_removed_role_end_immediately(user):
    client = client_with(log_in().json()["token"])
    user.groups.clear()

    assert_problem(client.get(JOBS), 403, "permission_denied")


@each_row("token", ["", "x", "two words", "\u00e9", "a\0b", "0" * 64, "'; --", "x" * 10_000])
def test_an_invalid_token_gives_no_access(user, token):
    log_in()

    assert_problem(client_with(token).get(JOBS), 401, "authentication_failed")


def test_an_old_token_does_not_prevent_a_new_token(user):
    assert log_in(HTTP_AUTHORIZATION="Token expired").status_code == 201


def test_a_new_token_above_the_users_limit_ends_the_oldest(user):
    oldest = client_with(log_in().json()["token"])
    for _ in range(MOST_OF_A_USER - 1):
        AuthToken.objects.create(user=user)
    assert oldest.get(JOBS).status_code == 200

    log_in()

    assert AuthToken.objects.count() == MOST_OF_A_USER
    assert_problem(oldest.get(JOBS), 401, "authentication_failed")


def test_a_logout_of_the_api_needs_a_token():
    assert_problem(client_of(VIEWER).delete(TOKEN), 401, "not_authenticated")


@each_row(
    ("body", "fields"),
    [
        ({}, ["username", "password"]),
        ({"username": "vera", "password": "x", "otp": 1}, ["otp"]),
        ({"username": "v" * 151, "password": "x"}, ["username"]),
        ({"username": "vera", "password": "x" * 5000}, ["password"]),
        ({"username": None, "password": ["x"]}, ["username", "password"]),
    ],
)
def test_invalid_credentials_are_refused_with_their_field(body, fields):
    assert_problem(APIClient().post(TOKEN, body), 400, "invalid", fields=fields)


def test_a_wrong_password_and_an_unknown_name_get_the_same_answer(user):
    wrong, unknown = log_in("wrong"), log_in(name="nobody")

    assert_problem(wrong, 401, "authentication_failed")
    assert wrong.json() == unknown.json()
    assert wrong["WWW-Authenticate"] == "Token"


def test_many_guesses_of_a_password_also_delay_the_right_password(quick_passwords, user):
    for _ in range(logins.MOST_OF_A_NAME):
        log_in("wrong")

    closed = log_in()

    assert_problem(closed, 429, "throttled")
    assert 0 < int(closed["Retry-After"]) <= logins.WINDOW.total_seconds() + 1
    assert log_in(REMOTE_ADDR="192.0.2.7").status_code == 201


def try_at_once(attempt, attempts=30):
    """Run the attempt in this number of threads concurrently. Return the number of answers by status."""
    together = threading.Barrier(attempts)

    def try_one(_):
        together.wait()
        try:
            return attempt().status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(attempts) as threads:
        return Counter(threads.map(try_one, range(attempts)))


@pytest.mark.django_db(transaction=True)
def test_thirty_simultaneous_wrong_tokens_get_429_above_the_limit(quick_passwords, user):
    codes = try_at_once(lambda: log_in("wrong"))

    assert codes == {401: logins.MOST_OF_A_NAME, 429: 30 - logins.MOST_OF_A_NAME}
    assert_problem(log_in(), 429, "throttled")


@pytest.mark.django_db(transaction=True)
def test_thirty_simultaneous_wrong_logins_get_429_above_the_limit(quick_passwords, user):
    codes = try_at_once(lambda: Client().post("/login/", {"username": "vera", "password": "wrong"}))

    assert codes == {200: logins.MOST_OF_A_NAME, 429: 30 - logins.MOST_OF_A_NAME}


def test_the_login_page_says_how_long_to_wait(quick_passwords, user):
    for _ in range(logins.MOST_OF_A_NAME):
        log_in("wrong")

    closed = Client().post("/login/", {"username": "vera", "password": PASSWORD})

    assert closed.status_code == 429
    assert f"Try again in {closed['Retry-After']} seconds." in " ".join(closed.content.decode().split())


def test_guesses_for_many_names_of_one_address_are_limited(quick_passwords, user):
    for number in range(logins.MOST_OF_AN_ADDRESS):
        log_in("wrong", name=f"name {number}")

    assert_problem(log_in(), 429, "throttled")


def test_after_the_wait_a_login_is_possible_again(quick_passwords, user):
    for _ in range(logins.MOST_OF_A_NAME + 3):
        log_in("wrong")
    LoginAttempt.objects.update(at=timezone.now() - logins.WINDOW)

    assert log_in().status_code == 201
    assert not LoginAttempt.objects.exists()


def test_a_correct_password_removes_counted_wrong_passwords(quick_passwords, user):
    for _ in range(logins.MOST_OF_A_NAME - 1):
        log_in("wrong")

    assert log_in().status_code == 201
    assert log_in("wrong").status_code == 401
    assert log_in().status_code == 201


def test_logins_on_the_page_and_at_the_api_count_for_one_limit(quick_passwords, user):
    for _ in range(logins.MOST_OF_A_NAME):
        log_in("wrong")
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = "127.0.0.1"

    assert authenticate(request, username="vera", password=PASSWORD) is None


def test_a_wrong_login_name_is_not_stored(quick_passwords):
    log_in("x", name="my password, in the wrong box")

    assert "password" not in str(LoginAttempt.objects.values().get())


def test_all_addresses_of_an_ipv6_network_count_as_one_address(quick_passwords, user):
    for number in range(logins.MOST_OF_A_NAME):
        log_in("wrong", REMOTE_ADDR=f"2001:db8:1:2:{number}::7")

    assert_problem(log_in(REMOTE_ADDR="2001:db8:1:2:ffff::1"), 429, "throttled")
    assert log_in(REMOTE_ADDR="2001:db8:1:3::1").status_code == 201


def test_a_new_password_ends_the_tokens_of_the_old_one(user):
    make_user(VIEWER, name="otto", password=PASSWORD)
    leaked, of_another_user = log_in().json()["token"], log_in(name="otto").json()["token"]
    user.set_password("another long password")
    user.save()

    assert client_with(leaked).get(JOBS).status_code == 401
    assert client_with(of_another_user).get(JOBS).status_code == 200


def test_a_login_or_another_name_ends_no_token(user):
    token = log_in().json()["token"]
    assert Client().login(username="vera", password=PASSWORD)
    user.email = "vera@example.org"
    user.save()

    assert client_with(token).get(JOBS).status_code == 200
