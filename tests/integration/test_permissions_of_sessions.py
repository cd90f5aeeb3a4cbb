"""Proves that one query checks the login sessions of all open live pages, with the same results as Django."""

import asyncio

import pytest
from django.test import Client

from crawlctl.live.session_permissions import NOT_ALLOWED, NOT_LOGGED_IN, Judge, judge_sessions
from tests.support.api import make_user

pytestmark = pytest.mark.django_db


def log_in(user):
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def test_each_session_is_checked_against_its_own_user(django_assert_num_queries):
    viewer, nobody, gone = make_user("viewer"), make_user(), make_user("operator")
    root = make_user(name="root", is_superuser=True)
    keys = [log_in(user) for user in (viewer, nobody, gone, root)]
    gone.is_active = False
    gone.save()

    with django_assert_num_queries(3):
        verdicts = judge_sessions([*keys, "no session"])

    assert list(verdicts.values()) == [0, NOT_ALLOWED, NOT_LOGGED_IN, 0, NOT_LOGGED_IN]


def test_a_session_ends_when_its_user_changes_the_password():
    user = make_user("viewer", password="an old long phrase")
    key = log_in(user)
    user.set_password("a new long phrase")
    user.save()

    assert judge_sessions([key]) == {key: NOT_LOGGED_IN}


async def test_one_query_checks_the_sessions_of_pages_that_open_simultaneously():
    looks = []

    async def run(work):
        looks.append(None)
        return {f"session {number}": number for number in range(50)}

    judge = Judge(run)

    verdicts = await asyncio.gather(*(judge.judge(f"session {number}") for number in range(50)))

    assert verdicts == list(range(50))
    assert len(looks) == 1
    await judge.judge("session 7")
    assert len(looks) == 2
