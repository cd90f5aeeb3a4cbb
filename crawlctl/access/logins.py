"""
Limits for guessing passwords and API tokens: shared by the pages and the API, and kept in the database for all
processes.

An attempt is admitted and counted before its password is checked, under a lock of the address that makes it. So
concurrent attempts are counted one after the other, and exactly those above the limit are refused. A correct password
removes the counted attempts for its name.

After too many wrong passwords, a name is closed only for the address that sent them. Otherwise an attacker could lock
an administrator out. An attacker with many addresses may guess more often, and only a long password helps against that.
The addresses of one network of IPv6 count as one address: each customer of a provider has 2^64 of them.
"""

import datetime as dt
import ipaddress
from typing import Any, Final, LiteralString

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from crawlctl.models import LoginAttempt
from jobs.settings.logins import ISSUER, PASSWORD_LOGIN
from nodes.database.clock import read_clock
from nodes.settings.running import current

WINDOW: Final = dt.timedelta(minutes=5)
# Largest numbers of wrong passwords from one address within the window: for one name, and for all names together.
MOST_OF_A_NAME: Final = 10
MOST_OF_AN_ADDRESS: Final = 50

# Number of leading bits of an IPv6 address that name the network of one customer. The customer chooses the other bits.
_NETWORK_BITS: Final = 64

# One attempt of an address is counted at a time, until its transaction commits.
_LOCK_ADDRESS: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('login of ' || %s, 0))"

# Key of `request.META` for the seconds that a refused attempt must wait. Headers cannot set this key.
_WAIT: Final = "crawlctl.login_wait"


class GuardedBackend(ModelBackend):
    """
    Django's own users and permissions, behind the limit. An attempt above the limit is refused, and its password is not
    checked.

    While passwords are switched off, every attempt is refused.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        if username is None or password is None or "\0" in username or not current()[PASSWORD_LOGIN]:
            return None
        name, address = _digest(username), _address_of(request)
        if wait := _count_attempt(name, address):
            if request is not None:
                request.META[_WAIT] = wait
            raise PermissionDenied
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is not None:
            LoginAttempt.objects.filter(name=name, address=address).delete()
        return user


def login_methods() -> dict[str, bool]:
    """Return the ways to log in: passwords, and a provider of OpenID Connect."""
    given = current()
    return {"passwords": given[PASSWORD_LOGIN], "provider": bool(given[ISSUER])}


def seconds_to_wait(request: HttpRequest) -> int:
    """Return the seconds that the refused attempt of this request must wait; 0 if its password was checked."""
    return int(request.META.get(_WAIT, 0))


def seconds_closed(secret: str, request: HttpRequest, *, now: dt.datetime) -> int:
    """
    Return the seconds that requests with this secret must wait after wrong secrets; 0 if the secret may be checked.
    """
    return _seconds_to_wait(_digest(secret), _address_of(request), now=now)


def count_wrong(secret: str, request: HttpRequest) -> int:
    """Count a request with this wrong secret and return 0, or return the seconds to wait if it is above the limit."""
    return _count_attempt(_digest(secret), _address_of(request))


@transaction.atomic
def _count_attempt(name: str, address: str) -> int:
    """
    Count this attempt and return 0, or return the seconds until the next one is admitted.

    An attempt that is refused is not counted, so it does not lengthen the wait.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_ADDRESS, [address])
    # Read the clock after the lock, so that attempts are dated in the order in which they are counted.
    now = read_clock()
    _delete_old(now)
    wait = _seconds_to_wait(name, address, now=now)
    if not wait:
        LoginAttempt.objects.create(name=name, address=address, at=now)
    return wait


def _delete_old(now: dt.datetime) -> None:
    # A request from another address may delete the same rows now. Skip locked rows, so that two requests never wait for
    # each other.
    old = LoginAttempt.objects.select_for_update(skip_locked=True).filter(at__lte=now - WINDOW)
    LoginAttempt.objects.filter(pk__in=old.values("pk")).delete()


def _seconds_to_wait(name: str, address: str, *, now: dt.datetime) -> int:
    counted = LoginAttempt.objects.filter(address=address, at__gt=now - WINDOW).aggregate(
        of_name=Count("id", filter=Q(name=name)),
        of_address=Count("id"),
        first_of_name=Min("at", filter=Q(name=name)),
        first=Min("at"),
    )
    if counted["of_address"] >= MOST_OF_AN_ADDRESS:
        return _seconds_until(counted["first"] + WINDOW, now)
    if counted["of_name"] >= MOST_OF_A_NAME:
        return _seconds_until(counted["first_of_name"] + WINDOW, now)
    return 0


def _address_of(request: HttpRequest | None) -> str:
    return counted_address(str(request.META.get("REMOTE_ADDR", ""))) if request is not None else ""


def counted_address(address: str) -> str:
    """Return the address under which attempts are counted: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # A proxy may name a client by any text.
        return address[:100]
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK_BITS), strict=False))


def _digest(username: str) -> str:
    return salted_hmac("crawlctl.access.logins", username.casefold(), algorithm="sha256").hexdigest()


def _seconds_until(moment: dt.datetime, now: dt.datetime) -> int:
    return max(1, int((moment - now).total_seconds()) + 1)
