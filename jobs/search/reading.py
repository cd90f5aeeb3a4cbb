"""Searches for the documents that a user may see. An administrator may search in the place of another user."""

from typing import Final

from jobs.authorities.threaded_service import tokens_of_users
from jobs.connectors.authority.kind import MOST_OF_A_NAME
from jobs.connectors.repository.access import OPEN, Access, scope_token
from jobs.connectors.repository.access_rules import read_rules
from jobs.models import Job, SearchAccess
from jobs.search.all_partitions import FoundEverywhere, has_others, search_everywhere
from jobs.settings.authorities import LOGIN_DOMAIN
from nodes.errors import Invalid
from nodes.membership.changes import record_request
from nodes.settings.running import current

MAY_SEARCH: Final = "jobs.view_searchdocument"
MAY_SEARCH_AS: Final = "jobs.search_as_user"


def access_by_rules(job: Job, identifier: str) -> Access:
    """Return the access of a document by the present rules of its job, without the permissions of its source."""
    group = job.repository.authority_group
    return read_rules(job.access_rules, group=group.name if group else "").of(identifier, OPEN)


def search_for(login: str, query: str, *, limit: int, after: str | None = None) -> FoundEverywhere:
    """
    Return a page of the documents of all partitions that match, as far as the user with this login may see them.

    Raises:
        BadQuery: the query is too long, or `after` is not the `next` of a page.
        TooSlow: the database gave up.
    """
    tokens = ask_for_tokens(login) if has_others() else tokens_of_login(login)
    return search_everywhere(query, tokens=tokens, limit=limit, after=after)


def search_as(login: str, query: str, *, limit: int, after: str | None = None, made_by: str) -> FoundEverywhere:
    """
    Return the page that another user would see, with a line in the journal.

    Raises:
        Invalid: this is no name of a user.
        BadQuery, TooSlow: as `search_for`.
    """
    login = login.strip()
    if not login or len(login) > MOST_OF_A_NAME or not login.isprintable():
        raise Invalid({"as_user": [f"Write the login of a user: 1 to {MOST_OF_A_NAME} printable characters."]})
    # A search treats a NUL as a blank. It is replaced here, because the journal cannot store it.
    written = query.replace("\0", " ")[:MOST_OF_A_NAME]
    record_request(f"{made_by} searched as {login}", made_by=made_by, user=login, query=written)
    return search_for(login, query, limit=limit, after=after)


def tokens_of_login(login: str) -> frozenset[str]:
    """Return the tokens of a user for a search. No authority is asked as long as all documents are open."""
    return ask_for_tokens(login) if SearchAccess.objects.exists() else frozenset()


def ask_for_tokens(login: str) -> frozenset[str]:
    """Return the tokens of a user with their groups, as all authorities give them."""
    found = tokens_of_users(users_of(login, domain=current()[LOGIN_DOMAIN]))
    return frozenset(scope_token(group, token) for group, token in found)


def users_of(login: str, *, domain: str) -> dict[str, str]:
    """
    Return the names of a user by domain. Authorities are asked about these names.

    An authority without a domain is asked about the login. An authority with a domain is asked about the part before
    the last `@`, if the rest is its domain. A login without `@` belongs to `domain`, unless that is empty.
    """
    name, at, rest = login.rpartition("@")
    users = {"": login}
    if at and name and rest:
        users[rest] = name
    elif not at and domain:
        users[domain] = login
    return users
