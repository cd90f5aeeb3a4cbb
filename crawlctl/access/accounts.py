"""
Accounts of users: their lines in the journal, the deletion of tokens when a password changes, and the first
administrator account, so that a new installation has a login.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, transaction
from django.db.models.signals import post_save, pre_save
from django.utils.crypto import get_random_string
from knox.models import AuthToken

from jobs.settings.logins import PASSWORD_LOGIN
from jobs.settings.table import ADMIN_PASSWORD
from nodes.membership.changes import as_secret, record_change
from nodes.settings.running import current

_NAME = "admin"
_LENGTH = 20
_SHORTEST = 8
# The name that the journal shows as creator of the first administrator.
FIRST_START: Final = "the first start"


def user_facts(user: User) -> dict[str, Any]:
    """
    Return the stored fields of a user. A digest stands for the password, so that the journal shows a new password.
    """
    facts = ("username", "is_active", "is_superuser", "first_name", "last_name", "email")
    roles = sorted(user.groups.values_list("name", flat=True))
    return {**{name: getattr(user, name) for name in facts}, "roles": roles, "password": as_secret(user.password)}


def journal_user(user: User, *, before: dict[str, Any], after: dict[str, Any], made_by: str) -> None:
    """Write a line about a user into the journal: a creation, a change or a deletion."""
    record_change(f"user {user.get_username()}", before=before, after=after, made_by=made_by)


@contextmanager
def users_journaled(*, made_by: str) -> Iterator[None]:
    """
    Write a line into the journal for each user that the block saves. Commands of Django need this, because they do not
    write the journal.
    """
    stored: dict[str, dict[str, Any]] = {}

    def note_before(instance: User, **_: object) -> None:
        found = User.objects.filter(pk=instance.pk).first()
        stored[instance.username] = user_facts(found) if found else {}

    def journal(instance: User, **_: object) -> None:
        before = stored.pop(instance.username)
        journal_user(instance, before=before, after=user_facts(instance), made_by=made_by)

    pre_save.connect(note_before, sender=User)
    post_save.connect(journal, sender=User)
    try:
        yield
    finally:
        pre_save.disconnect(note_before, sender=User)
        post_save.disconnect(journal, sender=User)


def end_tokens_with_password(instance: User, update_fields: Collection[str] | None = None, **_: object) -> None:
    """
    Delete the tokens that a user got with a password, if another password is about to be stored.

    This function handles Django's `pre_save`, because pages, commands and logins at a provider all set passwords.
    Django ends sessions when a password changes. Tokens end as well, because a thief of the old password may have got
    one.
    """
    if update_fields is not None and "password" not in update_fields:
        return
    stored = User.objects.filter(pk=instance.pk).values_list("password", flat=True).first()
    if stored is not None and stored != instance.password:
        AuthToken.objects.filter(user_id=instance.pk).delete()


def ensure_administrator() -> str:
    """
    Create the administrator if there is none, and return the line that says how to log in.

    The first start creates the account with the password of CRAWLCTL_ADMIN_PASSWORD, or with a generated one, which
    only the returned line shows. Later starts do not change the password.

    Raises:
        ImproperlyConfigured: this is the first start, and CRAWLCTL_ADMIN_PASSWORD is too short.
    """
    if not current()[PASSWORD_LOGIN]:
        return _ensure_without_password()
    given: str = current()[ADMIN_PASSWORD]
    if User.objects.filter(username=_NAME).exists():
        return (
            f"administrator: {_NAME} (with the password of the first start or a later one; "
            f"to set another: crawlctl changepassword {_NAME})"
        )
    if given and len(given) < _SHORTEST:
        raise ImproperlyConfigured(
            f"CRAWLCTL_ADMIN_PASSWORD has {len(given)} characters: write at least {_SHORTEST}, or leave it out to get a generated password."
        )
    password = given or get_random_string(_LENGTH)
    try:
        with transaction.atomic(), users_journaled(made_by=FIRST_START):
            User.objects.create_superuser(_NAME, password=password)
    except IntegrityError:
        # Another process created the account at the same moment.
        return ensure_administrator()
    return f"administrator: {_NAME} password: {'that of CRAWLCTL_ADMIN_PASSWORD' if given else password}"


def _ensure_without_password() -> str:
    with transaction.atomic(), users_journaled(made_by=FIRST_START):
        if not User.objects.filter(username=_NAME).exists():
            User.objects.create_superuser(_NAME)
    return f"administrator: {_NAME} (passwords are switched off; to log in: crawlctl sso login-link {_NAME})"
