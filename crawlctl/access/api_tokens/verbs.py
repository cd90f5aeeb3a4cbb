"""Operations on API tokens: pages, the API and the command call these. Each change is a line of the journal."""

from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from crawlctl.access.api_tokens.scopes import SCOPES, scopes_of
from crawlctl.models import ApiToken
from nodes.api.bearer import OF_A_USER, digest_of, new_token
from nodes.api.lifetimes import expiry, why_no_days
from nodes.errors import Invalid, NameTaken, Refused, Unknown
from nodes.membership.changes import as_secret, record_change

LONGEST_NAME: Final = 100
# Largest number of tokens of one user. A program that creates one at each start must not fill the table.
MOST_OF_A_USER: Final = 50
MANAGES: Final = "crawlctl.manage_apitoken"


def visible_to(user: Any) -> QuerySet[ApiToken]:  # noqa: ANN401 (a user of any kind)
    """
    Return the tokens that this user may see and revoke: its own tokens, or the tokens of all users for an
    administrator.
    """
    tokens = ApiToken.objects.select_related("owner")
    return tokens if user.has_perm(MANAGES) else tokens.filter(owner_id=user.pk)


@transaction.atomic
def create(*, owner: User, name: object, scope: object, days: object = None, made_by: str) -> tuple[ApiToken, str]:
    """
    Store a new token, which expires after some days or never; return it with its text.

    The text is not stored, so no later call can return it.

    Raises:
        Invalid: a field is invalid, the name is taken, or the owner has fewer permissions than the scope.
        Refused: the owner has too many tokens.
    """
    # The lock also lets two simultaneous creations see each other's name.
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    checked = _checked_name(name)
    problems = _problems_of(owner, scope=scope, days=days)
    if not checked:
        problems["name"] = [f"Write a name of 1 to {LONGEST_NAME} characters in one line."]
    if problems:
        raise Invalid(problems)
    names = set(ApiToken.objects.filter(owner_id=owner.pk).values_list("name", flat=True))
    if checked in names:
        raise NameTaken("API token of this user", checked)
    if len(names) >= MOST_OF_A_USER:
        raise Refused(f"{owner.get_username()} has {MOST_OF_A_USER} API tokens, which is the limit. Revoke one first.")
    text = new_token(OF_A_USER)
    token = ApiToken(
        owner_id=owner.pk,
        name=checked,
        digest=digest_of(text),
        scope=str(scope),
        created_by=made_by,
        expires_at=expiry(days),
    )
    token.save()
    token.refresh_from_db()
    _record(token, before={}, after=_facts(token), made_by=made_by)
    return token, text


@transaction.atomic
def revoke(token_id: int, *, among: QuerySet[ApiToken], made_by: str) -> None:
    """
    Delete one of these tokens. Later requests with this token are refused.

    Raises: Unknown: no token among these has the id.
    """
    token = among.select_for_update(of=("self",)).filter(pk=token_id).first()
    if token is None:
        raise Unknown("API token", token_id, f"API token {token_id} does not exist.")
    _record(token, before=_facts(token), after={}, made_by=made_by)
    token.delete()


def _checked_name(name: object) -> str:
    text = name.strip() if isinstance(name, str) else ""
    return text if 0 < len(text) <= LONGEST_NAME and text.isprintable() else ""


def _problems_of(owner: User, *, scope: object, days: object) -> dict[str, list[str]]:
    problems = {}
    allowed = scopes_of(owner)
    if not isinstance(scope, str) or scope not in SCOPES:
        problems["scope"] = [f"Choose a scope: {', '.join(allowed)}."]
    elif scope not in allowed:
        problems["scope"] = [f"The permissions of {owner.get_username()} are narrower than the scope {scope!r}."]
    if sentence := why_no_days(days):
        problems["days"] = [sentence]
    return problems


def _facts(token: ApiToken) -> dict[str, Any]:
    return {
        "owner": token.owner.get_username(),
        "name": token.name,
        "scope": token.scope,
        "expires_at": token.expires_at,
        "digest": as_secret(token.digest),
    }


def _record(token: ApiToken, *, before: dict[str, Any], after: dict[str, Any], made_by: str) -> None:
    what = f"API token {token.name} of {token.owner.get_username()}"
    record_change(what, before=before, after=after, made_by=made_by)
