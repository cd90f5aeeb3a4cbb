"""
The first start creates one administrator, shows the password once, and never changes a password that a user chose.
"""

import re

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from crawlctl.access.accounts import ensure_administrator
from jobs.settings.logins import PASSWORD_LOGIN
from jobs.settings.table import ADMIN_PASSWORD

pytestmark = pytest.mark.django_db


def password_in(line):
    return re.fullmatch(r"administrator: admin password: (\S{20,})", line)[1]


def may_log_in(password):
    user = authenticate(username="admin", password=password)
    return user is not None and user.is_staff and user.is_superuser


def test_the_first_start_creates_an_administrator_and_prints_the_password():
    line = ensure_administrator()

    assert may_log_in(password_in(line))


def test_a_later_start_neither_prints_nor_changes_the_password():
    password = password_in(ensure_administrator())

    line = ensure_administrator()

    assert "password:" not in line
    assert may_log_in(password)


def test_the_password_of_the_environment_is_set_at_the_first_start(settings):
    settings.CRAWLCTL_ENVIRONMENT = {ADMIN_PASSWORD.path: "from the environment"}

    line = ensure_administrator()

    assert "from the environment" not in line
    assert may_log_in("from the environment")


def test_the_password_of_the_environment_changes_nothing_at_a_later_start(settings):
    password = password_in(ensure_administrator())
    settings.CRAWLCTL_ENVIRONMENT = {ADMIN_PASSWORD.path: "from the environment"}

    ensure_administrator()

    assert may_log_in(password)
    assert not may_log_in("from the environment")


def test_a_password_of_the_environment_below_8_characters_is_refused(settings):
    settings.CRAWLCTL_ENVIRONMENT = {ADMIN_PASSWORD.path: "seven77"}

    with pytest.raises(ImproperlyConfigured, match="has 7 characters: write at least 8"):
        ensure_administrator()

    assert not User.objects.exists()


def test_without_passwords_the_first_start_says_how_to_log_in(settings):
    settings.CRAWLCTL_ENVIRONMENT = {PASSWORD_LOGIN.path: False}

    lines = {ensure_administrator(), ensure_administrator()}

    assert lines == {"administrator: admin (passwords are switched off; to log in: crawlctl sso login-link admin)"}
    assert not User.objects.get().has_usable_password()
