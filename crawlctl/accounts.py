"""The first administrator, so that there is somebody who can log in."""

from django.contrib.auth.hashers import identify_hasher, make_password
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string

from jobs.settings.running import current
from jobs.settings.table import ADMIN_PASSWORD

_NAME = "admin"
_LENGTH = 20

# A salt that begins so says that nobody has chosen this password: it may be replaced by another one.
_GENERATED = "generated"


def ensure_administrator(*, renew: bool) -> str:
    """
    Make sure that there is an administrator, and return the line that tells people how to log in as him.

    CRAWLCTL_ADMIN_PASSWORD is his password, now and at every later start. Without it one is generated
    and is in the returned line only: when he is made, and, to `renew`, at every start until somebody
    has chosen one.
    """
    if current()[ADMIN_PASSWORD]:
        _set_password(current()[ADMIN_PASSWORD])
        return f"administrator: {_NAME} password: that of CRAWLCTL_ADMIN_PASSWORD"
    user = User.objects.filter(username=_NAME).first()
    if user is None or (renew and _has_generated_password(user)):
        password = get_random_string(_LENGTH)
        _set_password(password, salt=_GENERATED + get_random_string(_LENGTH))
        return f"administrator: {_NAME} password: {password}"
    return f"administrator: {_NAME} (his password was shown or chosen before; `manage.py changepassword {_NAME}` sets another)"


def _set_password(password: str, *, salt: str | None = None) -> None:
    """Let the administrator have this password. Nothing is written if he has it: that would log him out."""
    user = User.objects.filter(username=_NAME).first() or _create()
    if not user.check_password(password):
        user.password = make_password(password, salt=salt)
        user.save(update_fields=["password"])


def _create() -> User:
    try:
        with transaction.atomic():
            return User.objects.create_superuser(_NAME)
    except IntegrityError:
        # Another process, started at the same moment, was first.
        return User.objects.get(username=_NAME)


def _has_generated_password(user: User) -> bool:
    if not user.has_usable_password():
        return False
    return str(identify_hasher(user.password).decode(user.password)["salt"]).startswith(_GENERATED)
