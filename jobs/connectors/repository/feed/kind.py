"""Feeds as a kind of source: what may be asked of them, and where a run begins."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.feed.connector import FeedConnector
from jobs.connectors.repository.kind import Asked, Checked, Seeding
from jobs.connectors.repository.schema import BadSpecification, Schema
from jobs.connectors.repository.web.kind import HOSTS, bad_addresses, name_addresses, specification_of
from jobs.connectors.repository.web.runtime import WebRuntime
from jobs.connectors.repository.web.scope import BadPattern, ScopeKind
from jobs.connectors.repository.web.specification import (
    ALLOW_PRIVATE_NETWORKS,
    EXCLUDE,
    INCLUDE,
    ROBOTS_WAIT,
    USER_AGENT,
    WebSpecification,
)
from jobs.connectors.repository.web.urls import canonical
from jobs.lifecycle.scan import Model

SCHEMA: Final = Schema((INCLUDE, EXCLUDE, USER_AGENT, ROBOTS_WAIT, ALLOW_PRIVATE_NETWORKS))


class FeedKind:
    name: Final = "feed"
    label: Final = _("Feeds")
    model: Final = Model.ALL
    link_types: Final = ("link", "redirect")
    bins: Final = HOSTS
    configuration: Final = SCHEMA
    specification: Final = SCHEMA

    def canonical(self, typed: str) -> str:
        return canonical(typed)

    def check(self, asked: Asked) -> Checked:
        problems = bad_addresses(asked.seeds)
        if problems:
            return Checked({"seeds": problems})
        try:
            entries_wanted(asked).scope_around_seeds()
        except BadSpecification as error:
            return Checked({error.field: [str(error)]})
        except BadPattern as error:
            return Checked({"specification": [str(error)]})
        return Checked()

    def status(self, configuration: Mapping[str, Any]) -> str:
        """There is no one place that could be asked."""
        return ""

    def seed(self, asked: Asked, seeding: Seeding, *, last_version: str) -> str:
        name_addresses(asked.seeds, seeding)
        return ""

    def runtime(self) -> WebRuntime:
        return WebRuntime(entries_wanted, connector=FeedConnector)


def entries_wanted(asked: Asked) -> WebSpecification:
    """
    What a job asks of the web for its feeds: entries lie anywhere.

    Raises:
        BadSpecification: an unknown key, or a value that cannot be.
    """
    said = {**SCHEMA.read(asked.configuration), **SCHEMA.read(asked.specification)}
    return specification_of(Asked({"scope": ScopeKind.ANY, **said}, seeds=asked.seeds))


FEED: Final = FeedKind()
