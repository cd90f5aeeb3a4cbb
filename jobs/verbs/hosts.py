"""
All operations of operators on hosts. Pages, the REST API and commands call these functions.

An operator can close a host in two ways. A *stop* lets the documents of a host wait until an operator releases the
host. A *denial* (`jobs.verbs.deny_list`) ends them as DENIED. Both need a reason, and a confirmation for an unknown
host. A name without a port means all ports of the host. Both apply to the whole cluster as soon as they are stored:
workers close their open requests, and outputs keep their documents. The end of a back-off also applies immediately.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Collate

from jobs.connectors.repository.kind import BadIdentifier
from jobs.connectors.repository.web.kind import HOSTS
from jobs.connectors.repository.web.urls import bin_of, canonical
from jobs.models import Bin, BinState
from jobs.partitions import this_partition
from jobs.partitions.merged import Placed, change_in
from jobs.queries.partitions import read_owners
from jobs.queue.pace.end_back_off import retry_without_back_off
from jobs.queue.wake import wake_bin
from jobs.state import channels
from nodes.errors import Invalid, Refused, Unknown
from nodes.membership.changes import record_request

T = TypeVar("T")

# Permission to stop, deny and release hosts.
MAY_STOP: Final = "jobs.stop_bin"
_PORT: Final = re.compile(r":\d+$")
_LONGEST_REASON: Final = 500


class HostsUnknown(Refused):
    """A name or pattern matches no host that a crawl has reached, so it may be misspelled. Nothing was changed."""

    code = "unknown_hosts"

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        super().__init__(f"No crawl has come to a host {pattern}, so nothing would change now. Check the name.")


class HostElsewhere(Refused):
    """Another partition has the host, so a change in this partition would not stop its requests."""

    code = "host_elsewhere"

    def __init__(self, name: str, partition: str) -> None:
        self.name, self.partition = name, partition
        super().__init__(f"Host {name} belongs to partition {partition}. Do this there. Nothing was changed here.")


def stop(host_id: int, *, reason: str, made_by: str, now: dt.datetime) -> Bin:
    """
    Stop requests to a host, for all jobs and nodes, until `release`. A host without a port means all its ports.

    Raises:
        Unknown: no host has this id.
        HostElsewhere: since a move of slots, another partition has the host.
        Refused: the host is already stopped.
        Invalid: no reason is given.
    """
    check_reason(reason)
    with transaction.atomic():
        return _stop(_read(host_id), reason=reason, made_by=made_by, now=now)


def stop_named(typed: str, *, reason: str, confirm: bool = False, made_by: str, now: dt.datetime) -> Bin:
    """
    Stop a web host, given by its name or by the address of a page on it. The effect is that of `stop`.

    Raises:
        HostElsewhere: another partition has the host.
        HostsUnknown: no crawl has come to the host, and the caller did not confirm it.
        Refused: the host is already stopped.
        Invalid: the name is not a host name, or no reason is given.
    """
    name = name_meant(typed)
    check_reason(reason)
    _refuse_host_of_another(name)
    if not confirm and not known_hosts(name).exists():
        raise HostsUnknown(name)
    usual = {"is_known": False, "usual_requests": HOSTS.requests, "usual_gap": HOSTS.gap}
    with transaction.atomic():
        found, is_new = Bin.objects.get_or_create(namespace=HOSTS.namespace, name=name, defaults=usual)
        if is_new:
            BinState.objects.create(bin=found)
        return _stop(found, reason=reason, made_by=made_by, now=now)


def _stop(found: Bin, *, reason: str, made_by: str, now: dt.datetime) -> Bin:
    facts = {"stopped_at": now, "stopped_by": made_by, "stopped_why": reason.strip()}
    names_every_port = found.namespace == HOSTS.namespace and not _PORT.search(found.name)
    before = _facts(found)
    if names_every_port:
        Bin.objects.filter(pk=found.pk).update(stops_every_port=True)
    meant = known_hosts(found.name) if names_every_port else Bin.objects.filter(pk=found.pk)
    if not meant.filter(stopped_at=None).update(**facts):
        raise Refused(f"{found} is already stopped by {found.stopped_by}: {found.stopped_why}")
    found.refresh_from_db()
    _record(found, f"{made_by} stopped {found}: {reason.strip()}", before=before, made_by=made_by)
    return found


def known_hosts(name: str) -> QuerySet[Bin]:
    """Return the web host with this name. If the name has no port, also return the same host with each of its ports."""
    of_web = Bin.objects.filter(namespace=HOSTS.namespace)
    if _PORT.search(name):
        return of_web.filter(name=name)
    # The condition is spelled like the condition of the index, which otherwise would not be used. `;` is the character
    # after `:`, so the range has all names with a port.
    with_port = of_web.alias(key=Collate("name", "C")).filter(key__gt=f"{name}:", key__lt=f"{name};")
    return of_web.filter(Q(name=name) | Q(pk__in=with_port.values("pk")))


def release(host_id: int, *, made_by: str, now: dt.datetime) -> Bin:
    """
    Release a stopped host, together with all ports that were stopped with it. Its limits apply as before.

    Raises:
        Unknown: no host has this id.
        HostElsewhere: since a move of slots, another partition has the host.
        Refused: the host is not stopped.
    """
    with transaction.atomic():
        found = _read(host_id)
        if found.stopped_at is None:
            raise Refused(f"{found} is not stopped.")
        before = _facts(found)
        meant = Bin.objects.filter(pk=found.pk)
        if found.stops_every_port:
            meant |= known_hosts(found.name).filter(stopped_at=found.stopped_at)
        released = list(meant.values_list("pk", flat=True))
        Bin.objects.filter(pk__in=released).update(
            stopped_at=None, stopped_by="", stopped_why="", stops_every_port=False
        )
        for each in released:
            wake_bin(connection.connection, bin_id=each, now=now)
        found.refresh_from_db()
        _record(found, f"{made_by} released {found}", before=before, made_by=made_by)
    return found


def end_back_off(host_id: int, *, made_by: str, now: dt.datetime) -> Bin:
    """
    End the back-off of a host, or its recovery, because an operator knows that the host works. The host immediately
    gets requests at its full rate.

    Its refusals no longer count, even if the host requested a longer delay. Documents that wait for a retry at this
    host are due now, and keep their number of failures.

    Raises:
        Unknown: no host has this id.
        HostElsewhere: since a move of slots, another partition has the host.
        Refused: the host is not backing off.
    """
    with transaction.atomic():
        found = _of_connectors(host_id).select_for_update(no_key=True).first()
        if found is None:
            raise Unknown("host", host_id)
        _refuse_left_behind(found)
        until = found.back_off_until if found.back_off_until and found.back_off_until > now else None
        if not found.back_off_level and until is None:
            raise Refused(f"{found} is not backing off.")
        ended = f"level {found.back_off_level}" + (f", until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "")
        before = _facts(found)
        found.back_off_level, found.back_off_until, found.backing_off_since = 0, None, None
        found.save(update_fields=["back_off_level", "back_off_until", "backing_off_since"])
        retry_without_back_off(connection.connection, bin_id=host_id, now=now)
        _record(found, f"{made_by} ended the back-off of {found} ({ended})", before=before, made_by=made_by)
    return found


def find_named(typed: str) -> Bin:
    """
    Return the web host with this name, or the host of the page with this address.

    Raises:
        HostElsewhere: another partition has the host.
        Unknown: no crawl has come to the host, and no operator has stopped it.
        Invalid: the name is not a host name.
    """
    name = name_meant(typed)
    _refuse_host_of_another(name)
    found = Bin.objects.filter(namespace=HOSTS.namespace, name=name).first()
    if found is None:
        raise Unknown("host", name)
    return found


def where_it_is(action: Callable[[], T]) -> Placed[T]:
    """
    Execute an action on a host in the partition that has the host, and return its result with the name of this
    partition. Only the control partition executes actions in other partitions.

    Raises:
        HostElsewhere: another partition has it, and this is not the control partition.
        PartitionAway: that partition does not answer.
    """
    try:
        return Placed(action())
    except HostElsewhere as elsewhere:
        if not this_partition.control_name():
            raise
        return Placed(change_in(elsewhere.partition, action), elsewhere.partition)


def _refuse_host_of_another(name: str) -> None:
    """
    Check that this partition has a host.

    Raises:
        HostElsewhere: another partition has the host.
    """
    stated = this_partition.placement()
    if stated is None:
        return
    owner = replace(stated, owners=tuple(read_owners(stated))).foreign(_PORT.sub("", name))
    if owner is not None:
        raise HostElsewhere(name, owner)


def name_meant(typed: str) -> str:
    """
    Return the stored name of the web host that a person typed, as a name or as an address of a page on it.

    Raises:
        Invalid: the name is not a host name.
    """
    typed = typed.strip()
    try:
        return bin_of(canonical(typed if "://" in typed else f"http://{typed}/"))
    except BadIdentifier as bad:
        raise Invalid({"name": [f"{bad}. Write the name of a host, such as www.example.com."]}) from None


def check_reason(reason: str) -> None:
    """
    Check the reason of an operator.

    Raises:
        Invalid: the reason is blank or too long.
    """
    if not reason.strip() or len(reason) > _LONGEST_REASON or "\0" in reason:
        raise Invalid({"reason": [f"Write a reason of 1 to {_LONGEST_REASON} characters. Other operators see it."]})


def _of_connectors(host_id: int) -> QuerySet[Bin]:
    return Bin.objects.filter(pk=host_id).exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY])


def _read(host_id: int) -> Bin:
    found = _of_connectors(host_id).first()
    if found is None:
        raise Unknown("host", host_id)
    _refuse_left_behind(found)
    return found


def _refuse_left_behind(found: Bin) -> None:
    """
    Check that this partition still has a web host, as `_refuse_host_of_another` does: a move of slots leaves the rows
    of its hosts behind.
    """
    if found.namespace == HOSTS.namespace:
        _refuse_host_of_another(found.name)


def _facts(found: Bin) -> dict[str, object]:
    """Return the fields of a host that these operations change."""
    return {
        "stopped_by": found.stopped_by,
        "stopped_why": found.stopped_why,
        "back_off_level": found.back_off_level,
        "back_off_until": found.back_off_until,
    }


def _record(changed: Bin, message: str, *, before: Mapping[str, object], made_by: str) -> None:
    """Write a line into the journal. When the transaction commits, running workers are notified."""
    after = _facts(changed)
    record_request(message, made_by=made_by, before=before, after=after, bin=changed.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", (channels.CONTROL,))
