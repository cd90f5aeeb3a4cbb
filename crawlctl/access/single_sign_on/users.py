"""Users of the provider, and their roles."""

import shlex
from typing import Any, Final, LiteralString

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, connection, transaction

from crawlctl.access.accounts import journal_user, user_facts
from crawlctl.access.api_tokens import verbs as api_tokens
from crawlctl.access.single_sign_on.identity import Identity, is_subject
from crawlctl.models import ApiToken, ProviderIdentity
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused
from nodes.membership.changes import record_request

# Author of changes of roles in the journal.
PROVIDER: Final = "the provider"
# The lock serializes two first logins of one subject.
_LOCK_SUBJECT: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('subject ' || %s, 0))"


def accept(identity: Identity) -> User:
    """
    Return the user of an identity, with the roles of this moment; create the user at the first login.

    A user without a role also loses its earlier roles, and is then refused.

    Raises:
        Refused: the user has no role, is inactive, or cannot be created. The sentence is for the user.
    """
    refusal = _take_over(identity)
    if isinstance(refusal, User):
        return refusal
    raise refusal


@transaction.atomic
def _take_over(identity: Identity) -> User | Refused:
    """Store the user and its roles. A refusal is returned, not raised, because lost roles must be stored."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_SUBJECT, [f"{identity.subject} of {identity.issuer}"])
    known = ProviderIdentity.objects.select_related("user").filter(issuer=identity.issuer, subject=identity.subject)
    found = known.first()
    if found is not None:
        _set_roles(found.user, identity)
    if not identity.roles:
        return Refused("Your groups at the provider give you no role here. Ask an administrator of crawlctl for one.")
    if found is None:
        if not identity.name:
            return Refused("The provider sent no name that a user can have. Ask an administrator of crawlctl.")
        try:
            found = _create(identity)
        except IntegrityError:
            return Refused(
                f"The name {identity.name} belongs to another user here. If this is you, an administrator connects the two: "
                f"crawlctl sso link {identity.name} {shlex.quote(identity.subject)}"
            )
    if not found.user.is_active:
        return Refused("This user is not active. Ask an administrator of crawlctl.")
    found.logged_in_at = read_clock()
    found.save(update_fields=["logged_in_at"])
    record_login(found.user, "at the provider")
    return found.user


@transaction.atomic
def link(user: User, *, issuer: str, subject: str, made_by: str) -> None:
    """
    Let an existing user log in at the provider. From then on, the provider gives the user its roles, and its password
    is invalid.

    Raises:
        Invalid: the subject is invalid, or belongs to another user.
        Refused: the user is a superuser, whose rights no provider gives.
    """
    if not is_subject(subject):
        raise Invalid({"subject": ["Write the subject as the provider does (claim sub), in at most 255 characters."]})
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if user.is_superuser:
        raise Refused(f"{user.get_username()} is a superuser, and a provider gives no such rights. Link another user.")
    identity, is_new = ProviderIdentity.objects.get_or_create(issuer=issuer, subject=subject, defaults={"user": user})
    if identity.user_id != user.pk:
        raise Invalid({"subject": [f"This subject belongs to the user {identity.user.get_username()}."]})
    before = user_facts(user)
    user.set_unusable_password()
    user.save(update_fields=["password"])
    if is_new:
        before, after = {**before, "subjects": []}, {**user_facts(user), "subjects": [str(identity)]}
        journal_user(user, before=before, after=after, made_by=made_by)


@transaction.atomic
def unlink(user: User, *, made_by: str) -> None:
    """
    End the logins of a user at the provider. The user keeps its roles, and has no password until an administrator sets
    one.

    Its sessions end, and its API tokens are revoked, because a user that no longer logs in at the provider could use
    them without a time limit.

    Raises:
        Refused: the user does not log in at a provider.
    """
    found = list(ProviderIdentity.objects.select_for_update().filter(user=user).order_by("id"))
    if not found:
        raise Refused(f"{user.get_username()} does not log in at a provider.")
    facts = user_facts(user)
    # A change of the stored password ends all sessions. Unusable passwords are random, so this stores another one each
    # time.
    user.set_unusable_password()
    user.save(update_fields=["password"])
    subjects = [str(identity) for identity in found]
    ProviderIdentity.objects.filter(user=user).delete()
    tokens = ApiToken.objects.filter(owner_id=user.pk)
    for token_id in tokens.order_by("id").values_list("id", flat=True):
        api_tokens.revoke(token_id, among=tokens, made_by=made_by)
    journal_user(user, before={**facts, "subjects": subjects}, after={**facts, "subjects": []}, made_by=made_by)


def record_login(user: User, how: str, **detail: Any) -> None:
    """Write a line about a login into the journal of the cluster."""
    name = user.get_username()
    record_request(f"{name} logged in {how}", made_by=name, roles=user_facts(user)["roles"], **detail)


@transaction.atomic
def _create(identity: Identity) -> ProviderIdentity:
    """Create the user of an identity; IntegrityError if the name is taken, perhaps by a login of this moment."""
    user = User.objects.create_user(identity.name)
    user.groups.set(Group.objects.filter(name__in=identity.roles))
    journal_user(user, before={}, after=user_facts(user), made_by=PROVIDER)
    return ProviderIdentity.objects.create(user=user, issuer=identity.issuer, subject=identity.subject)


def _set_roles(user: User, identity: Identity) -> None:
    """Give a user exactly these roles. No provider gives the rights of a superuser."""
    before = user_facts(user)
    if user.is_superuser:
        user.is_superuser = False
        user.save(update_fields=["is_superuser"])
    user.groups.set(Group.objects.filter(name__in=identity.roles))
    after = user_facts(user)
    if after != before:
        journal_user(user, before=before, after=after, made_by=PROVIDER)
