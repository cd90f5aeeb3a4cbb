"""
The navigation of all pages: the areas in the bar, their places, and the one that a page belongs to.

The names of addresses decide: a page belongs to the place with the longest prefix of its name. So a new page below a
known name has a place, and any other page needs a line in this module.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from crawlctl.languages import LANGUAGES
from jobs.partitions import this_partition


@dataclass(frozen=True, slots=True)
class Place:
    """
    One page of the navigation, with the permission to see it (empty: any role).

    `view` is the name of its address. `pages` are prefixes of the names of further pages that belong to it.
    """

    label: Any
    view: str
    pages: tuple[str, ...] = ()
    permission: str = ""

    @property
    def address(self) -> str:
        """Return the address in the partition of the web server, also on a page of another partition."""
        elsewhere = this_partition.path_in(this_partition.foreign_name())
        return "/" + reverse(self.view).removeprefix(elsewhere)


@dataclass(frozen=True, slots=True)
class Area:
    """One item of the bar, with its places. It leads to the first place that the user may see."""

    label: Any
    places: tuple[Place, ...]
    permission: str = ""


# Lists of rows that the system writes, on the page of the set-up.
RECORDS: Final[tuple[Place, ...]] = tuple(
    Place(label, f"admin:{table}_changelist")
    for label, table in (
        (_("Seeds"), "jobs_seed"),
        (_("Queue"), "jobs_queueitem"),
        (_("Groups"), "jobs_throttlegroup"),
        (_("Records of nodes"), "nodes_node"),
        (_("Cluster requests"), "nodes_clusterrequest"),
        (_("Journal of jobs"), "jobs_jobevent"),
        (_("Journal of nodes"), "nodes_nodeevent"),
        (_("Records of tasks"), "tasks_task"),
        (_("Ended tasks"), "tasks_archivedtask"),
        (_("Task templates"), "tasks_tasktemplate"),
        (_("Task workers"), "tasks_taskworker"),
    )
)

_SET_UP: Final = Area(
    _("Set-up"),
    (
        Place(_("All set-up"), "admin:index", ("admin:",)),
        Place(_("Repositories"), "admin:jobs_repositoryconnection_changelist", ("admin:jobs_repositoryconnection_",)),
        Place(_("Authorities"), "authorities", ("authorities", "admin:authorities_")),
        Place(_("Notifications"), "notifications", ("notification", "admin:notices_")),
        Place(_("Settings"), "settings"),
        Place(_("Retention"), "retention", ("retention",)),
        Place(_("Users"), "admin:auth_user_changelist", ("admin:auth_",), "auth.view_user"),
    ),
    "jobs.change_job",
)

AREAS: Final[tuple[Area, ...]] = (
    Area(_("Overview"), (Place(_("Overview"), "overview"),)),
    Area(
        _("Jobs"),
        (
            Place(_("Jobs"), "jobs", ("job", "admin:jobs_job_")),
            Place(_("Deleted jobs"), "deleted-jobs", ("deleted-job",)),
            Place(_("Versions"), "versions", ("version",)),
        ),
    ),
    Area(_("Runs"), (Place(_("Runs"), "runs", ("run",)), Place(_("Grid of runs"), "run-grid"))),
    Area(
        _("Schedules"),
        (Place(_("Schedules"), "schedules", ("schedule",)), Place(_("Calendar"), "schedule-calendar")),
    ),
    Area(
        _("Documents"),
        (
            Place(_("Documents"), "documents", ("document", "archive-record", "archive-body")),
            Place(_("Failures"), "failures", ("failure",)),
            Place(_("Explain"), "explain", ("explain",)),
            Place(_("Search"), "search"),
        ),
    ),
    Area(
        _("Hosts"),
        (
            Place(_("Hosts"), "hosts", ("host",)),
            Place(_("Denied hosts"), "hosts-denied"),
            Place(_("Limits by webmasters"), "hosts-webmasters"),
            Place(_("Traps"), "traps", ("trap",)),
            Place(_("Throttle policies"), "admin:jobs_throttlepolicy_changelist", ("admin:jobs_throttlepolicy_",)),
        ),
    ),
    Area(
        _("Outputs"),
        (
            Place(
                _("Outputs"),
                "admin:jobs_outputconnection_changelist",
                ("output", "admin:jobs_outputconnection_"),
            ),
            Place(_("Archive files"), "archive-verification", ("archive",)),
        ),
    ),
    Area(_("Tasks"), (Place(_("Tasks"), "tasks", ("task",)),)),
    Area(
        _("Cluster"),
        (
            Place(_("Cluster"), "cluster", ("cluster",)),
            Place(_("Cluster history"), "cluster-history"),
            Place(_("Nodes"), "nodes", ("node",)),
            Place(_("Distributed jobs"), "distributed-jobs", ("distributed",)),
            Place(_("Partitions"), "partitions", ("partition",)),
            Place(_("Coordination"), "coordination", ("coordination",), "nodes.control_cluster"),
            Place(_("Drills"), "drills", ("drill",), "drill.view_drill"),
        ),
    ),
    Area(
        _("Reports"),
        (Place(_("Reports"), "reports", ("report",)), Place(_("Exports"), "exports", ("export",))),
    ),
    _SET_UP,
    Area(_("Help"), (Place(_("Help"), "manual", ("documentation",)),)),
)


# Prefixes of names of pages that show only the partition of their web server. Other pages show all partitions, or the
# configuration, which the control partition has for all.
_OF_ONE_PARTITION: Final = (
    *("coordination", "distributed", "document-archive", "document-versions", "drill", "retention"),
    *("hosts-webmasters", "task-run", "task-template-new", "tasks-cancel", "tasks-reschedule"),
    *("admin:nodes_", "admin:tasks_", "authorities"),
    *(f"admin:jobs_{table}_" for table in ("queueitem", "throttlegroup", "jobevent")),
)
# Whole names of such pages: a longer name with the same beginning is another page.
_ONLY_OF_ONE_PARTITION: Final = frozenset({"settings"})
# Pages of one partition to which lists of all partitions link, and these lists.
_OF_ALL_BY_LINK: Final = ("archive", "cluster", "host", "job-archive", "node", "output-verification", "task", "trap")
# Pages of one partition that the control partition does not show for others: set-up, secrets, and processes.
_ONLY_AT_HOME: Final = (
    *("coordination", "distributed", "drill", "retention", "settings"),
    *("admin:", "authorities", "hosts-"),
)

# The page of the user's account. The name of the user in the bar leads to it.
ACCOUNT: Final = Place(_("Your account"), "account", ("api-token",), "crawlctl.view_apitoken")


def is_of_one_partition(name: str) -> bool:
    """
    True if the page whose address has this name shows a single partition, and the control partition can show this page
    for each other partition, too.
    """
    is_of_one = name.startswith((*_OF_ALL_BY_LINK, *_OF_ONE_PARTITION))
    return is_of_one and not name.startswith(_ONLY_AT_HOME)


def find_place(name: str) -> tuple[Area, Place] | None:
    """Return the place of the page whose address has this name; None if it belongs to no place."""
    found: tuple[int, Area, Place] | None = None
    for area in AREAS:
        for place in area.places:
            fits = [len(start) for start in place.pages if name.startswith(start)]
            if name == place.view:
                fits.append(len(name) + 1)
            if fits and (found is None or max(fits) > found[0]):
                found = (max(fits), area, place)
    return None if found is None else found[1:]


class Shell:
    """The navigation around one page, for its user."""

    def __init__(self, request: HttpRequest) -> None:
        self._user: Any = request.user
        match = self._match = request.resolver_match
        self._name = match.view_name if match else ""
        self._found = find_place(self._name)

    @property
    def areas(self) -> Iterator[Mapping[str, object]]:
        """Yield the items of the bar."""
        for area in AREAS:
            places = self._allowed(area)
            if places and self._may(area.permission):
                is_current = self._found is not None and area is self._found[0]
                yield {"label": area.label, "address": places[0].address, "is_current": is_current}

    @property
    def places(self) -> Sequence[Mapping[str, object]]:
        """Return the places of the page's area; none if it has only one."""
        if self._found is None:
            return []
        area, current = self._found
        places = self._allowed(area)
        if len(places) < 2:
            return []
        return [{"label": place.label, "address": place.address, "is_current": place is current} for place in places]

    @property
    def is_account(self) -> bool:
        """True for the page of the user's account, and those below it."""
        return self._name == ACCOUNT.view or self._name.startswith(ACCOUNT.pages)

    @property
    def area(self) -> object:
        return self._found[0].label if self._found else ""

    @property
    def place(self) -> Mapping[str, object] | None:
        """Return the place that the page belongs to; None if the page is that place itself, or belongs to none."""
        if self._found is None or self._found[1].view == self._name:
            return None
        return {"label": self._found[1].label, "address": self._found[1].address}

    @property
    def place_is_index(self) -> bool:
        """
        True for a page of the set-up that has no separate place in the navigation. Its breadcrumb must also link to its
        list.
        """
        return self._found is not None and self._found[1].view == "admin:index"

    @property
    def partition(self) -> str:
        """
        Return the name of the control partition if there are several partitions and the page shows only this one; ""
        otherwise.
        """
        is_of_one = self._name in _ONLY_OF_ONE_PARTITION or self._name.startswith(_OF_ONE_PARTITION)
        return this_partition.control_name() if is_of_one else ""

    @property
    def foreign(self) -> str:
        """Return the name of the other partition that the page shows; "" otherwise."""
        return this_partition.foreign_name()

    @property
    def elsewhere(self) -> Sequence[Mapping[str, str]]:
        """Return the other partitions that have a page like this one, with its address."""
        placement, match = this_partition.placement(), self._match
        if placement is None or match is None or not self.partition or not is_of_one_partition(self._name):
            return []
        if match.kwargs:
            return []
        return [
            {"name": name, "address": this_partition.address_in(name, reverse(self._name))} for name in placement.others
        ]

    @property
    def set_up(self) -> Sequence[Place]:
        """Return everything that is set up on pages, for the page that lists it."""
        return [
            place
            for area in AREAS
            for place in self._allowed(area)
            if place.view.startswith(("admin:jobs_", "jobs")) or (area is _SET_UP and place.view != "admin:index")
        ]

    @property
    def languages(self) -> Sequence[tuple[str, str]]:
        """Return the code of each language of the pages, and its own name for itself."""
        return LANGUAGES

    @property
    def records(self) -> Sequence[Place]:
        return RECORDS

    def find(self, words: Sequence[str]) -> Iterator[Place]:
        """Yield the places whose label has, for each of these words, a word that begins with it."""
        places = [place for area in AREAS if self._may(area.permission) for place in self._allowed(area)]
        account = [ACCOUNT] if self._may(ACCOUNT.permission) else []
        for place in [*places, *account, *RECORDS]:
            label_words = str(place.label).lower().replace("-", " ").split()
            if all(any(one.startswith(word.lower()) for one in label_words) for word in words):
                yield place

    def _allowed(self, area: Area) -> list[Place]:
        return [place for place in area.places if self._may(place.permission)]

    def _may(self, permission: str) -> bool:
        return not permission or self._user.has_perm(permission)


def navigation(request: HttpRequest) -> dict[str, object]:
    """Give each template the navigation, as `shell`."""
    return {"shell": SimpleLazyObject(lambda: Shell(request))}
