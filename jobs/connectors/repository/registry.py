"""The kinds of sources there are, and what a job may say to each."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from jobs.connectors.repository.web.scope import BadPattern
from jobs.connectors.repository.web.specification import BadSpecification, WebSpecification
from jobs.connectors.repository.web.urls import BadUrl, canonical
from jobs.models import RepositoryConnection

CONNECTORS = ("web",)


class UnknownConnector(Exception):
    """A connection names a connector that is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no repository connector {name!r}; there are: {', '.join(CONNECTORS)}.")


def web_specification(
    repository_configuration: Mapping[str, Any], specification: Mapping[str, Any], *, seeds: Sequence[str]
) -> WebSpecification:
    """
    What a job asks of the web: the connection's configuration, overridden by the job's own specification.

    Raises:
        BadSpecification: an unknown key, or a value of another type.
    """
    defaults = {"user_agent": settings.CRAWLCTL_USER_AGENT}
    return WebSpecification.from_json({**defaults, **repository_configuration, **specification, "seeds": list(seeds)})


def check_specification(
    repository: RepositoryConnection, *, specification: Mapping[str, Any], seeds: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """
    Return what is wrong, by field, and warnings about what is legal and probably not meant.

    Raises:
        UnknownConnector: the repository's connector is not installed.
    """
    if repository.connector not in CONNECTORS:
        raise UnknownConnector(repository.connector)
    problems: dict[str, list[str]] = {}
    for url in seeds:
        try:
            canonical(url)
        except BadUrl as error:
            problems.setdefault("seeds", []).append(str(error))
    if problems:
        return problems, []
    try:
        scope = web_specification(repository.configuration, specification, seeds=seeds).scope_around_seeds()
    except BadSpecification as error:
        return {error.field: [str(error)]}, []
    except BadPattern as error:
        return {"specification": [str(error)]}, []
    warnings = []
    for url in seeds:
        why = scope.why_not(canonical(url))
        if why is not None:
            warnings.append(
                f"The seed {url} is out of its own scope: {why}. It is fetched; nothing that it names may be."
            )
    return {}, warnings
