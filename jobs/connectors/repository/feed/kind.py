"""Feeds as a kind of source: the specification of a job, and its seeds."""

from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.feed.children import FeedReader
from jobs.connectors.repository.feed.connector import FeedConnector
from jobs.connectors.repository.kind import Judged, SourceSettings
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.kind import AddressKind, specification_of
from jobs.connectors.repository.web.runtime import WebRuntime
from jobs.connectors.repository.web.scope import ScopeKind
from jobs.connectors.repository.web.specification import (
    ALLOW_PRIVATE_NETWORKS,
    EXCLUDE,
    INCLUDE,
    INDEX_RULES,
    ROBOTS_NAME,
    ROBOTS_WAIT,
    USER_AGENT,
    WebSpecification,
)
from jobs.connectors.schema import Schema

_ENTRIES_LIKE: Final = replace(
    INCLUDE,
    label=_("Include entries (patterns)"),
    help=_(
        "Regular expressions (RE2) for addresses of entries, one per line. Feeds are always read. If empty, all entries are read."
    ),
)
_NO_ENTRIES_LIKE: Final = replace(
    EXCLUDE,
    label=_("Exclude entries (patterns)"),
    help=_("Regular expressions (RE2) for addresses of entries, one per line. Feeds are always read."),
)
SCHEMA: Final = Schema(
    (_ENTRIES_LIKE, _NO_ENTRIES_LIKE, *INDEX_RULES, USER_AGENT, ROBOTS_NAME, ROBOTS_WAIT, ALLOW_PRIVATE_NETWORKS)
)


class FeedRuntime(WebRuntime):
    """The shared state of feed jobs in one process: the state that web jobs share, and the children that read feeds."""

    def __init__(self) -> None:
        super().__init__(entries_wanted)
        self._feeds = FeedReader()

    def new_connector(self, specification: WebSpecification, **options: Any) -> WebConnector:
        return FeedConnector(specification, feeds=self._feeds, **options)

    async def close(self) -> None:
        await self._feeds.close()
        await super().close()


class FeedKind(AddressKind):
    name: Final = "feed"
    label: Final = _("Feeds")
    configuration: Final = SCHEMA
    specification: Final = SCHEMA
    reads_seeds_otherwise: Final = True

    def wanted(self, source: SourceSettings) -> WebSpecification:
        return entries_wanted(source)

    def judge(self, source: SourceSettings, identifier: str, *, is_seed: bool) -> Judged:
        judged = super().judge(source, identifier, is_seed=is_seed)
        # The scope rules apply to entries only, and links of entries are not followed.
        return replace(judged, refusal="", rule="a feed of the job") if is_seed else judged

    def runtime(self) -> WebRuntime:
        return FeedRuntime()


def entries_wanted(source: SourceSettings) -> WebSpecification:
    """
    Return the web specification of a feed job: its entries may be anywhere.

    Raises:
        BadSpecification: a key is unknown, or a value is invalid.
    """
    configuration = {"scope": ScopeKind.ANY, **SCHEMA.read(source.configuration)}
    return specification_of(SourceSettings(configuration, SCHEMA.read(source.specification), source.seeds))


FEED: Final = FeedKind()
