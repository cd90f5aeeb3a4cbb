"""The stored specification of a web job: its fields, their checks, and the typed value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.web.index_rules import IndexRules
from jobs.connectors.repository.web.login import LOGINS, Login
from jobs.connectors.repository.web.robots_rules import is_name, name_of
from jobs.connectors.repository.web.scope import Scope, ScopeKind
from jobs.connectors.repository.web.urls import canonical
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema
from jobs.traps.quarantine import TrapGuard

DEFAULT_USER_AGENT = "crawlctl/0.1"
# Longest User-Agent (characters): servers refuse requests with a header of more than a few thousand characters.
_MOST_USER_AGENT: Final = 1000
# Characters that the name of a parameter cannot contain.
_OF_QUERIES: Final = frozenset("?&=#; \t")

SCOPE: Final = Field(
    name="scope",
    kind=FieldKind.CHOICE,
    label=_("Scope"),
    choices=(
        (ScopeKind.HOST, _("host: same host name and port")),
        (ScopeKind.DOMAIN, _("domain: same registrable domain")),
        (ScopeKind.PREFIX, _("prefix: addresses that start like the seed, up to its last slash")),
        (ScopeKind.ANY, _("any: all links")),
    ),
)
INCLUDE: Final = Field(
    name="include",
    kind=FieldKind.LINES,
    label=_("Include addresses (patterns)"),
    help=_("Regular expressions (RE2), one per line. They also apply to seeds. If empty, all addresses are included."),
)
EXCLUDE: Final = Field(
    name="exclude",
    kind=FieldKind.LINES,
    label=_("Exclude addresses (patterns)"),
    help=_("Regular expressions (RE2), one per line. They also apply to seeds."),
)
CONTENT_TYPES: Final = Field(
    name="content_types",
    kind=FieldKind.LINES,
    label=_("Content types to index"),
    help=_(
        "Content types such as text/html or text/*, one per line. Links of other pages are still followed. If empty, all text types are indexed."
    ),
)
MAX_BYTES: Final = Field(
    name="max_bytes",
    kind=FieldKind.WHOLE,
    label=_("Maximum page size to index (bytes)"),
    help=_("Links of longer pages are still followed. If empty, no limit applies."),
    least=1,
    most=2**31 - 1,
)
EXCLUDE_TEXT: Final = Field(
    name="exclude_text",
    kind=FieldKind.LINES,
    label=_("Exclude pages by text (patterns)"),
    help=_("Regular expressions (RE2) for title and text, one per line. Links of these pages are still followed."),
)
INDEX_RULES: Final = (CONTENT_TYPES, MAX_BYTES, EXCLUDE_TEXT)
MAX_DEPTH: Final = Field(
    name="max_depth",
    kind=FieldKind.WHOLE,
    label=_("Maximum depth (links from a seed)"),
    help=_("If empty, no limit applies."),
    least=0,
    most=2**31 - 1,
)
DROP_PARAMETERS: Final = Field(
    name="drop_parameters",
    kind=FieldKind.LINES,
    label=_("Drop query parameters"),
    help=_(
        "Names of parameters, such as those of sessions or sort orders, one per line. Links and redirects are "
        "followed without them. Upper and lower case do not matter."
    ),
)
TRAP_GUARD: Final = Field(
    name="trap_guard",
    kind=FieldKind.CHOICE,
    label=_("Trap guard"),
    choices=(
        (TrapGuard.OFF, _("off")),
        (TrapGuard.WATCH, _("watch: show groups of addresses without new content")),
        (TrapGuard.HOLD, _("hold: fetch no new documents of such groups, until an operator decides")),
    ),
)
USER_AGENT: Final = Field(
    name="user_agent",
    kind=FieldKind.TEXT,
    label=_("User-Agent"),
    help=_("If empty, the value of the connection applies."),
)
ROBOTS_NAME: Final = Field(
    name="robots_name",
    kind=FieldKind.TEXT,
    label=_("Robot name in robots.txt"),
    help=_(
        "Robot name for robots.txt and robots directives: letters, digits, - and _. If empty, it is the first word of the User-Agent, or the "
        "name in “(compatible; Name/1.0)”."
    ),
)
ROBOTS_WAIT: Final = Field(
    name="robots_wait",
    kind=FieldKind.NUMBER,
    label=_("Retry delay of robots.txt (seconds)"),
    help=_(
        "Delay before the crawler requests a robots.txt again that answered 5xx. If empty, the value of the "
        "connection applies."
    ),
    least=0,
    most=86_400,
)
ALLOW_PRIVATE_NETWORKS: Final = Field(
    name="allow_private_networks",
    kind=FieldKind.TRUTH,
    label=_("Allow private networks"),
    help=_("Allow requests to addresses outside the public internet, such as 127.0.0.1 or 10.0.0.1."),
)
SCHEMA: Final = Schema(
    (
        *(SCOPE, INCLUDE, EXCLUDE, DROP_PARAMETERS, TRAP_GUARD),
        *INDEX_RULES,
        *(MAX_DEPTH, USER_AGENT, ROBOTS_NAME, ROBOTS_WAIT, ALLOW_PRIVATE_NETWORKS),
    )
)
# Logins belong to the connection, so all its jobs share them.
CONFIGURATION: Final = Schema((*SCHEMA.fields, LOGINS))


@dataclass(frozen=True, slots=True)
class WebSpecification:
    """
    `seeds` are addresses as entered. `redirects` are the followed redirects of seeds to other hosts. A document at
    `max_depth` references no links; None means no limit. `robots_wait` is the time for which a host whose robots.txt
    answers 5xx is retried (seconds).
    """

    seeds: tuple[str, ...]
    scope: ScopeKind = ScopeKind.HOST
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    drop_parameters: tuple[str, ...] = ()
    trap_guard: TrapGuard = TrapGuard.OFF
    content_types: tuple[str, ...] = ()
    max_bytes: int | None = None
    exclude_text: tuple[str, ...] = ()
    max_depth: int | None = None
    user_agent: str = DEFAULT_USER_AGENT
    robots_name: str = ""
    allow_private_networks: bool = False
    robots_wait: float = 60.0
    logins: tuple[Login, ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(
        cls, stored: Mapping[str, Any], *, seeds: Sequence[str], redirects: Sequence[tuple[str, str]] = ()
    ) -> Self:
        """
        Return the specification of stored values.

        Raises:
            BadSpecification: a key is unknown, or a value is invalid.
        """
        said = CONFIGURATION.read(stored)
        if "scope" in said:
            said["scope"] = ScopeKind(said["scope"])
        if "trap_guard" in said:
            said["trap_guard"] = TrapGuard(said["trap_guard"])
        if any(not name or set(name) & _OF_QUERIES for name in said.get("drop_parameters", ())):
            raise BadSpecification("drop_parameters", "must be names, without blanks and without any of ?&=#;")
        if "user_agent" in said:
            check_user_agent(said["user_agent"])
        if said.get("robots_name") and not is_name(said["robots_name"]):
            raise BadSpecification("robots_name", "must be one word of letters, digits, - and _")
        if "logins" in said:
            said["logins"] = tuple(Login.read(login) for login in said["logins"])
            names = [login.name for login in said["logins"]]
            if len(set(names)) < len(names):
                raise BadSpecification("logins", "two logins have the same name")
        return cls(seeds=tuple(seeds), redirects=tuple(redirects), **said)

    @property
    def robots_name_asked(self) -> str:
        """Return the name under which robots rules are read."""
        return self.robots_name or name_of(self.user_agent)

    @property
    def dropped_parameters(self) -> frozenset[str]:
        """Return the parameters that links lose, in lower case."""
        return frozenset(name.lower() for name in self.drop_parameters)

    def index_rules(self) -> IndexRules:
        """
        Return the rules that keep pages out of the index.

        Raises:
            BadSpecification: a content type or a pattern is invalid.
        """
        return IndexRules(types=self.content_types, max_bytes=self.max_bytes, exclude_text=self.exclude_text)

    def scope_around_seeds(self) -> Scope:
        """
        Return the scope of the job.

        Raises:
            BadUrl: a seed is not a web address.
            BadPattern: an include or exclude pattern cannot be used.
        """
        scope = Scope(
            kind=self.scope,
            seeds=[canonical(seed) for seed in self.seeds],
            include=self.include,
            exclude=self.exclude,
            dropped=self.dropped_parameters,
        )
        scope.follow(self.redirects)
        return scope


def check_user_agent(name: str) -> None:
    """
    Check a User-Agent.

    Raises:
        BadSpecification: servers would refuse it.
    """
    if not name.strip() or not name.isprintable() or not name.isascii():
        raise BadSpecification("user_agent", "must be printable ASCII and not empty")
    if len(name) > _MOST_USER_AGENT:
        raise BadSpecification("user_agent", f"longer than {_MOST_USER_AGENT} characters")
