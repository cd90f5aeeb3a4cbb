"""Actions for gates: the operation or the page that opens a gate, with the permission that it needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from jobs.connectors.repository.web.urls import directory_of
from jobs.explain.explaining import Section
from jobs.explain.gates import Judgement, Reason, Status
from jobs.lifecycle.document import CLAIMED
from jobs.lifecycle.job import TRANSITIONS
from jobs.models import Job, QueueItem
from jobs.queries.hosts.lines import HostStatus, set_by_of
from jobs.queue.chosen_documents import Operation
from jobs.throttling.sources import Origin
from jobs.verbs import documents
from jobs.verbs.control import MAY_CONTROL
from jobs.verbs.hosts import MAY_STOP
from jobs.verbs.policies import EVERYWHERE
from jobs.verdicts.causes import Cause

MAY_EDIT_JOB: Final = "jobs.change_job"
_MAY_EDIT_POLICY: Final = "jobs.change_throttlepolicy"
_MAY_SEE: Final = "jobs.view_job"


# Reasons whose remedy is to fetch the document again.
_FETCHED_AGAIN: Final = frozenset(
    {Cause.RETRY, Reason.BAD_RESULT, Reason.READ_IN_RUN, Reason.READ_LATER, Reason.EXPIRES, Reason.NOT_HELD}
)
# Reasons for which the page with the remedy belongs to the partition that has the host.
_OF_CLUSTERS: Final = frozenset(
    {
        *(Cause.NO_MANAGER, Cause.NO_WORKER, Cause.NO_TAG, Cause.WORKERS, Cause.DISK, Cause.ARCHIVE, Cause.NO_OWNER),
        Cause.GROUP_FAILS,
    }
)


@dataclass(frozen=True, slots=True)
class GateAction:
    """
    A button or a link. `fields` are the fields of the button's form, None for a link.

    `operation` is the operation of the API with the same effect, "" if there is none.
    """

    label: str
    address: str
    permission: str
    fields: Mapping[str, str] | None = None
    operation: str = ""

    @property
    def is_button(self) -> bool:
        return self.fields is not None


@dataclass(frozen=True, slots=True)
class _Place:
    """The job and the host of a gate."""

    job: Job
    host: HostStatus | None
    judgement: Judgement


def action_of(section: Section, judgement: Judgement) -> GateAction | None:
    """Return the operation that opens a blocked gate; None if no operation is possible or needed."""
    if judgement.status != Status.BLOCKED:
        return None
    if section.partition and judgement.reason in _OF_CLUSTERS:
        return None
    if judgement.reason in _FETCHED_AGAIN and section.item is not None:
        return fetch_again(section.item)
    if judgement.reason in {Reason.UNKNOWN, Reason.NOT_REACHED_IN_RUN}:
        return _add_seed(section, judgement)
    place = _Place(section.job, None if section.partition else section.host, judgement)
    if isinstance(judgement.reason, Cause):
        return _of_job(judgement.reason, place) or _of_host(judgement.reason, place)
    match judgement.reason:
        case Reason.OUT_OF_SCOPE | Reason.RULES_INVALID | Reason.TOO_FAR:
            return _edit_job(place, _("Edit the rules of the job"))
        case Reason.TRAP_HELD:
            return GateAction(_("See the suspect"), reverse("trap", args=[int(judgement.facts["suspect"])]), _MAY_SEE)
        case Reason.ROBOTS_FORBIDS | Reason.ROBOTS_UNREACHABLE:
            return _see_host(place)
        case _:
            return None


def fetch_again(item: QueueItem) -> GateAction:
    """Return the button that makes a document due now."""
    fields = {"job": str(item.job_id), "document": item.hash.hex, "url": item.identifier}
    address = reverse("explain-fetch-again")
    return GateAction(_("Fetch again now"), address, documents.MAY_FETCH, fields, "/api/v1/explain/fetch-again/")


def forget(item: QueueItem) -> GateAction | None:
    """Return the button that removes a document from the queue; None if an output may hold it."""
    if item.indexed_before or item.stage in CLAIMED:
        return None
    fields = {"job": str(item.job_id), "document": item.hash.hex, "url": item.identifier}
    return GateAction(_("Forget"), reverse("explain-forget"), documents.MAY_FORGET, fields, "/api/v1/explain/forget/")


def change_branch(section: Section) -> GateAction | None:
    """
    Return the link to operations on all documents below the directory of a web address; None for another document.
    """
    item = section.item
    if item is None or section.host is None or not item.identifier.startswith(("http://", "https://")):
        return None
    pattern = f"^{re.escape(directory_of(item.identifier))}"
    asked = urlencode({"operation": Operation.READ_AGAIN, "host": section.host.name, "pattern": pattern})
    address = f"{reverse('job-bulk', args=[item.job_id])}?{asked}"
    return GateAction(_("Fetch this branch again"), address, documents.MAY_FETCH, operation="/api/v1/bulk/preview/")


def _add_seed(section: Section, judgement: Judgement) -> GateAction:
    url = section.item.identifier if section.item is not None else judgement.facts["identifier"]
    fields = {"job": str(section.job.pk), "url": url}
    return GateAction(_("Add to the seeds"), reverse("explain-add-seed"), MAY_EDIT_JOB, fields)


def _of_job(cause: Cause, place: _Place) -> GateAction | None:
    match cause:
        case Cause.NOT_RUNNING:
            return _transition(place, "start")
        case Cause.PAUSED | Cause.OUTPUT:
            return _transition(place, "resume")
        case Cause.GUARD:
            return GateAction(_("Decide about the removals"), reverse("job-removals", args=[place.job.pk]), _MAY_SEE)
        case Cause.WINDOW:
            return _edit_job(place, _("Edit the windows of the job"))
        case Cause.BUDGET | Cause.CONNECTOR:
            return _edit_job(place, _("Edit the job"))
        case Cause.NO_MANAGER | Cause.NO_WORKER | Cause.NO_TAG | Cause.WORKERS | Cause.DISK | Cause.ARCHIVE:
            return GateAction(_("See the nodes"), reverse("nodes"), _MAY_SEE)
        case Cause.SLOTS:
            return GateAction(_("See the move"), reverse("partitions"), _MAY_SEE)
        case Cause.NO_OWNER | Cause.GROUP_FAILS:
            return GateAction(_("See the cluster"), reverse("cluster"), _MAY_SEE)
        case _:
            return None


def _of_host(cause: Cause, place: _Place) -> GateAction | None:
    host = place.host
    if host is None:
        return None
    match cause:
        case Cause.STOPPED if host.id:
            address = f"/api/v1/hosts/{host.id}/release/"
            return GateAction(_("Release the host"), reverse("host-release", args=[host.id]), MAY_STOP, {}, address)
        case Cause.STOPPED | Cause.DENIED:
            return GateAction(_("See the deny list"), reverse("hosts-denied"), _MAY_SEE)
        case Cause.BACK_OFF | Cause.TRIAL if host.id:
            address = f"/api/v1/hosts/{host.id}/end-back-off/"
            return GateAction(
                _("End the back-off"), reverse("host-end-back-off", args=[host.id]), EVERYWHERE, {}, address
            )
        case Cause.CLOSED | Cause.GAP | Cause.BYTES | Cause.REQUESTS | Cause.PARENT | Cause.RAMPING:
            return _edit_policy(place, host) or _see_host(place)
        case Cause.CRAWL_DELAY:
            return _see_host(place)
        case _:
            return None


def _transition(place: _Place, verb: str) -> GateAction:
    row = TRANSITIONS[verb]
    return GateAction(
        row.label,
        reverse("job-transition", args=[place.job.pk]),
        MAY_CONTROL,
        {"transition": row.verb},
        f"/api/v1/jobs/{place.job.pk}/{row.verb}/",
    )


def _edit_job(place: _Place, label: str) -> GateAction:
    operation = f"/api/v1/jobs/{place.job.pk}/"
    return GateAction(label, reverse("admin:jobs_job_change", args=[place.job.pk]), MAY_EDIT_JOB, operation=operation)


def _edit_policy(place: _Place, host: HostStatus) -> GateAction | None:
    set_by = set_by_of(host, place.judgement.verdict) if place.judgement.verdict is not None else None
    if set_by is None or set_by.source.origin != Origin.POLICY or set_by.source.policy is None:
        return None
    number = set_by.source.policy
    return GateAction(
        _("Edit policy “%(policy)s”") % {"policy": set_by.policy},
        reverse("admin:jobs_throttlepolicy_change", args=[number]),
        _MAY_EDIT_POLICY,
        operation=f"/api/v1/policies/{number}/",
    )


def _see_host(place: _Place) -> GateAction | None:
    if place.host is None or not place.host.id:
        return None
    return GateAction(_("See the host"), reverse("host", args=[place.host.id]), _MAY_SEE)
