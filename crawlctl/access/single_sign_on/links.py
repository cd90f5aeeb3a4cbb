"""
Login links: a text by which a user logs in once, within ten minutes, also while the provider is down.

Django's generator of password-reset tokens signs the text over the user's last login, so a login ends it. No row is
needed.
"""

from typing import Final

from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.http import HttpRequest

from crawlctl.access.single_sign_on.sessions import start_session
from crawlctl.access.single_sign_on.users import record_login
from nodes.errors import Refused
from nodes.membership.changes import record_request


class _Texts(PasswordResetTokenGenerator):
    key_salt = "crawlctl.access.single_sign_on.links"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        # Django's own value has the last login to the second, so a link could work twice within one second.
        return f"{super()._make_hash_value(user, timestamp)}{user.last_login}"


_TEXTS: Final = _Texts()
_LONGEST_ID: Final = 18


def new_link(user: User, *, made_by: str) -> str:
    """
    Return the text of a link with which this user logs in once, and write a line into the journal.

    Raises:
        Refused: the user is not active.
    """
    if not user.is_active:
        raise Refused(f"{user.get_username()} is not active. Activate this user first.")
    record_request(f"{made_by} made a login link of {user.get_username()}", made_by=made_by)
    return f"{user.pk}-{_TEXTS.make_token(user)}"


@transaction.atomic
def log_in_by(request: HttpRequest, text: str) -> bool:
    """Log in the user of this link. Return False if the link is wrong, too old or used."""
    key, _dash, signed = text.partition("-")
    if not (key.isascii() and key.isdecimal() and len(key) <= _LONGEST_ID):
        return False
    # The second of two requests with one link waits, and then sees the login of the first.
    user = User.objects.select_for_update(no_key=True).filter(pk=int(key), is_active=True).first()
    if user is None or not _TEXTS.check_token(user, signed):
        return False
    record_login(user, "with a link")
    start_session(request, user)
    return True
