"""The first administrator, so that there is an account to log in with."""

from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string

from jobs.settings.running import current
from jobs.settings.table import ADMIN_PASSWORD

_NAME = "admin"
_LENGTH = 20
_SHORTEST = 8


def ensure_administrator() -> str:
    """
    Make sure that there is an administrator, and return the line that says how to log in.

    The first start makes the account with the password of CRAWLCTL_ADMIN_PASSWORD, or with a generated one, which stands
    in the returned line only. Later starts leave the password alone.

    Raises:
        ImproperlyConfigured: this is the first start, and CRAWLCTL_ADMIN_PASSWORD is too short.
    """
    given: str = current()[ADMIN_PASSWORD]
    if User.objects.filter(username=_NAME).exists():
        return (
            f"administrator: {_NAME} (with the password of the first start or a later one; "
            f"to set another: manage.py changepassword {_NAME})"
        )
    if given and len(given) < _SHORTEST:
        raise ImproperlyConfigured(
            f"CRAWLCTL_ADMIN_PASSWORD has {len(given)} characters: write {_SHORTEST} at least, or leave it out to have one made."
        )
    password = given or get_random_string(_LENGTH)
    try:
        with transaction.atomic():
            User.objects.create_superuser(_NAME, password=password)
    except IntegrityError:
        # Another process made the account at the same moment.
        return ensure_administrator()
    return f"administrator: {_NAME} password: {'that of CRAWLCTL_ADMIN_PASSWORD' if given else password}"
