"""
Passwords are guessed slowly: one limit for the UI, the API and the admin pages, in the database, so
that it holds over all processes.

An attempt is written before its password is looked at, and removed when it was right. So of a hundred
at the same moment no more are admitted than one after the other. A name is closed for the address
that guesses it, not for everybody: who wants to lock an administrator out cannot. Many addresses
together may guess more; against them only a long password helps.
"""

import datetime as dt
from typing import Any, Final

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from crawlctl.models import LoginAttempt
from jobs.queries.clock import read_clock

WINDOW: Final = dt.timedelta(minutes=5)
# With a wrong password within the window.
MOST_OF_A_NAME: Final = 10
MOST_OF_AN_ADDRESS: Final = 50


class GuardedBackend(ModelBackend):
    """Django's own users and permissions, behind the limit. Refuses without looking at the password."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        if username is None or password is None or "\0" in username:
            return None
        attempt = _write_attempt(request, username, now=read_clock())
        if _is_one_too_many(attempt):
            # Not kept: an attempt that was not looked at does not lengthen the wait.
            attempt.delete()
            raise PermissionDenied
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            LoginAttempt.objects.filter(name=attempt.name, address=attempt.address).delete()
        return user


def seconds_to_wait(request: HttpRequest, username: str, *, now: dt.datetime) -> int:
    """How long this address must wait before it may try this name again; 0 when it may now."""
    address = _address_of(request)
    recent = LoginAttempt.objects.filter(address=address, at__gt=now - WINDOW)
    counted = recent.aggregate(
        of_name=Count("id", filter=Q(name=_digest(username))),
        of_address=Count("id"),
        first_of_name=Min("at", filter=Q(name=_digest(username))),
        first=Min("at"),
    )
    if counted["of_address"] >= MOST_OF_AN_ADDRESS:
        return _seconds_until(counted["first"] + WINDOW, now)
    if counted["of_name"] >= MOST_OF_A_NAME:
        return _seconds_until(counted["first_of_name"] + WINDOW, now)
    return 0


def _write_attempt(request: HttpRequest | None, username: str, *, now: dt.datetime) -> LoginAttempt:
    LoginAttempt.objects.filter(at__lt=now - WINDOW).delete()
    return LoginAttempt.objects.create(name=_digest(username), address=_address_of(request), at=now)


def _is_one_too_many(attempt: LoginAttempt) -> bool:
    recent = LoginAttempt.objects.filter(address=attempt.address, at__gt=attempt.at - WINDOW)
    counted = recent.aggregate(of_name=Count("id", filter=Q(name=attempt.name)), of_address=Count("id"))
    return bool(counted["of_name"] > MOST_OF_A_NAME or counted["of_address"] > MOST_OF_AN_ADDRESS)


def _address_of(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))[:100] if request is not None else ""


def _digest(username: str) -> str:
    return salted_hmac("crawlctl.logins", username.casefold(), algorithm="sha256").hexdigest()


def _seconds_until(moment: dt.datetime, now: dt.datetime) -> int:
    return max(1, int((moment - now).total_seconds()) + 1)
