"""The first administrator: made once, told once, and never taken from whoever has chosen a password."""

import re

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User

from crawlctl.accounts import ensure_administrator
from jobs.settings.table import ADMIN_PASSWORD

pytestmark = pytest.mark.django_db


def password_in(line):
    return re.fullmatch(r"administrator: admin password: (\S{20,})", line)[1]


def may_log_in(password):
    user = authenticate(username="admin", password=password)
    return user is not None and user.is_staff and user.is_superuser


def test_the_first_start_makes_an_administrator_and_tells_his_password():
    line = ensure_administrator(renew=False)

    assert may_log_in(password_in(line))


def test_a_later_start_neither_tells_nor_changes_the_password():
    password = password_in(ensure_administrator(renew=False))

    line = ensure_administrator(renew=False)

    assert "password:" not in line
    assert may_log_in(password)


def test_a_generated_password_can_be_renewed():
    first = password_in(ensure_administrator(renew=True))

    second = password_in(ensure_administrator(renew=True))

    assert may_log_in(second)
    assert not may_log_in(first)


def test_a_generated_password_can_still_be_renewed_after_a_login():
    assert may_log_in(password_in(ensure_administrator(renew=True)))

    assert may_log_in(password_in(ensure_administrator(renew=True)))


def test_a_chosen_password_is_never_renewed():
    ensure_administrator(renew=True)
    user = User.objects.get(username="admin")
    user.set_password("chosen by somebody")
    user.save()

    line = ensure_administrator(renew=True)

    assert "password:" not in line
    assert may_log_in("chosen by somebody")


def test_the_password_of_the_environment_holds_and_is_not_shown(settings):
    ensure_administrator(renew=False)
    settings.CRAWLCTL_ENVIRONMENT = {ADMIN_PASSWORD.path: "from the environment"}

    line = ensure_administrator(renew=False)

    assert "from the environment" not in line
    assert may_log_in("from the environment")


def test_a_start_with_the_same_password_logs_nobody_out(settings):
    settings.CRAWLCTL_ENVIRONMENT = {ADMIN_PASSWORD.path: "from the environment"}
    ensure_administrator(renew=True)
    before = User.objects.get(username="admin").get_session_auth_hash()

    ensure_administrator(renew=True)

    assert User.objects.get(username="admin").get_session_auth_hash() == before
