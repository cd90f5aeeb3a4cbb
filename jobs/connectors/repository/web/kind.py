"""The web as a kind of source: the specification of a job, and its seeds."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.kind import BinKind, Checked, Judged, Seeding, SourceSettings
from jobs.connectors.repository.web.addresses import is_public
from jobs.connectors.repository.web.runtime import WebRuntime
from jobs.connectors.repository.web.scope import BadPattern, Scope
from jobs.connectors.repository.web.specification import CONFIGURATION, SCHEMA, WebSpecification
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, host_and_port, origin_of, without_parameters
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.scan import Model
from jobs.settings.table import ROBOTS_NAME, USER_AGENT
from nodes.settings.running import current

# A host starts with one document (`asks_first`), because its robots.txt may demand a delay.
HOSTS: Final = BinKind(namespace="web", asks_first=True, requests=2, gap=1.0)

# Largest number of refused seeds that a message names.
_MOST_REFUSED: Final = 10


@dataclass(frozen=True, slots=True)
class WebRules:
    """
    The rules of a web job: its scope with its patterns, the largest number of links from a seed, and the parameters
    that links lose.
    """

    scope: Scope
    max_depth: int | None
    dropped: frozenset[str] = frozenset()

    def why_not(self, identifier: str) -> str | None:
        return self.scope.why_not(identifier)

    def link_to(self, identifier: str) -> str:
        return without_parameters(identifier, self.dropped)


class AddressKind:
    """The common part of all kinds whose documents are web addresses."""

    # A run begins with the seeds alone, so a document that a complete run does not reach is removed.
    model: Final = Model.ALL
    link_types: Final = ("link", "redirect")
    bins: Final = HOSTS
    # A job may keep an archive of raw requests and responses.
    has_exchanges: Final = True

    def wanted(self, source: SourceSettings) -> WebSpecification:
        """
        Return the web specification of a job.

        Raises:
            BadSpecification: a key is unknown, or a value is invalid.
        """
        raise NotImplementedError

    def refused(self, scope: Scope, seeds: Sequence[str]) -> list[str]:
        """Return a sentence for each seed that the job's own rules refuse."""
        return []

    def canonical(self, typed: str) -> str:
        return canonical(typed)

    def check(self, source: SourceSettings) -> Checked:
        problems = bad_addresses(source.seeds)
        if problems:
            return Checked({"seeds": problems})
        try:
            wanted = self.wanted(source)
            wanted.index_rules()
        except BadSpecification as error:
            return Checked({error.field: [str(error)]})
        try:
            scope = wanted.scope_around_seeds()
        except BadPattern as error:
            field = "include" if error.pattern in wanted.include else "exclude"
            return Checked({field: [str(error)]})
        refused = self.refused(scope, source.seeds)
        private = () if wanted.allow_private_networks else private_addresses(source.seeds)
        return Checked({"seeds": refused} if refused else {}, private)

    def judge(self, source: SourceSettings, identifier: str, *, is_seed: bool) -> Judged:
        wanted = self.wanted(source)
        scope = wanted.scope_around_seeds()
        return Judged(
            refusal=scope.why_not(identifier) or "",
            rule=scope.why(identifier),
            max_depth=wanted.max_depth,
            robots_origin=origin_of(identifier),
            robots_name=wanted.robots_name_asked,
            trap_guard=wanted.trap_guard,
        )

    def status(self, configuration: Mapping[str, Any]) -> str:
        """Return "": a connection to the web has no address that could be checked."""
        return ""

    def seed(self, source: SourceSettings, seeding: Seeding, *, last_version: str) -> str:
        name_addresses(source.seeds, seeding)
        return ""


class WebKind(AddressKind):
    name: Final = "web"
    label: Final = _("Web")
    configuration: Final = CONFIGURATION
    specification: Final = SCHEMA

    def wanted(self, source: SourceSettings) -> WebSpecification:
        return specification_of(source)

    def refused(self, scope: Scope, seeds: Sequence[str]) -> list[str]:
        # As in ManifoldCF, the rules of a job also apply to its seeds.
        reasons = {url: why for url in seeds if (why := scope.why_not(canonical(url))) is not None}
        said = [
            f"The seed {url} would never be fetched: {why}. Change the rules or remove the seed."
            for url, why in itertools.islice(reasons.items(), _MOST_REFUSED)
        ]
        more = len(reasons) - len(said)
        return [*said, f"The rules refuse {more:,} more seeds."] if more else said

    def rules(self, source: SourceSettings) -> WebRules:
        wanted = self.wanted(source)
        return WebRules(wanted.scope_around_seeds(), wanted.max_depth, wanted.dropped_parameters)

    def runtime(self) -> WebRuntime:
        return WebRuntime(specification_of)


def specification_of(source: SourceSettings) -> WebSpecification:
    """
    Return the web specification of a job: the connection's configuration, overridden by the job's own specification.

    Raises:
        BadSpecification: a key is unknown, or a value is invalid.
    """
    defaults = {"user_agent": current()[USER_AGENT], "robots_name": current()[ROBOTS_NAME]}
    own = SCHEMA.read(source.specification)
    said = _overridden(defaults, source.configuration, own)
    return WebSpecification.read(said, seeds=source.seeds, redirects=source.redirects)


def _overridden(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the merged values of the defaults, the connection and the job, in this order. If several have a value, the
    last one applies. A User-Agent also replaces an earlier name for robots.txt.
    """
    said: dict[str, Any] = {}
    for level in levels:
        if "user_agent" in level:
            said.pop("robots_name", None)
        said |= level
    return said


def bad_addresses(typed: Sequence[str]) -> list[str]:
    """Return the problems of these addresses, a sentence for each."""
    problems = []
    for url in typed:
        try:
            canonical(url)
        except BadUrl as error:
            problems.append(str(error))
    return problems


def private_addresses(typed: Sequence[str]) -> list[str]:
    """
    Return a sentence if some of these valid addresses are certainly private. Host names are not resolved, so other
    addresses may be private, too.
    """
    hosts = dict.fromkeys(host_and_port(canonical(url))[0] for url in typed)
    private = [host for host in hosts if _is_private(host)]
    if not private:
        return []
    named = ", ".join(private[:_MOST_REFUSED])
    return [
        gettext(
            "%(hosts)s: private addresses, which this job may not request (ADDRESS_FORBIDDEN). Allow private networks in its settings, or change the seed."
        )
        % {"hosts": named}
    ]


def _is_private(host: str) -> bool:
    """True for a loopback name, and for a numeric address outside of the public internet."""
    name = host.strip("[]")
    try:
        return not is_public(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def name_addresses(typed: Sequence[str], seeding: Seeding) -> None:
    """Name the documents of stored addresses. Addresses that are no longer valid are skipped."""
    for address in typed:
        try:
            url = canonical(address)
        except BadUrl:
            continue
        seeding.add(url, bin=bin_of(url))


WEB: Final = WebKind()
