"""
All operations of operators on distributed jobs. Pages and the API translate their requests and call these.

Nodes read the switches regularly: runs of a disabled job get a request to stop, and the main node assigns its items to
no node.
"""

import datetime as dt

from django.db import connection, transaction

from nodes.coordination.names import checked
from nodes.distributed.models import DistributedJobSwitch, RedistributionRequest
from nodes.distributed.records import ALL, OTHERS
from nodes.membership.changes import record_request


def set_switch(*, cluster: str, job: str, is_disabled: bool | None, made_by: str, now: dt.datetime) -> None:
    """
    Disable or enable a job, `ALL` of them, or all `OTHERS`; None deletes the switch.

    Raises:
        BadName: the name of the cluster, or of the job, is invalid.
    """
    checked("cluster", cluster)
    if job not in {ALL, OTHERS}:
        checked("job", job)
    named = {ALL: "all jobs", OTHERS: "jobs without a separate switch"}.get(job, f"job {job}")
    changed = {True: "disabled", False: "enabled", None: "removed the switch of"}[is_disabled]
    with transaction.atomic():
        lock_switches(cluster)
        stored = DistributedJobSwitch.objects.filter(cluster=cluster, job=job)
        before = stored.values_list("is_disabled", flat=True).first()
        if is_disabled is None:
            stored.delete()
        else:
            facts = {"is_disabled": is_disabled, "changed_by": made_by, "changed_at": now}
            DistributedJobSwitch.objects.update_or_create(cluster=cluster, job=job, defaults=facts)
        record_request(
            f"{made_by} {changed} {named} of the cluster {cluster}",
            made_by=made_by,
            before={"is_disabled": before},
            after={"is_disabled": is_disabled},
            cluster=cluster,
            job=job,
        )


def lock_switches(cluster: str) -> None:
    """
    Keep other transactions from changing the switches of a cluster. The lock has a separate name, because most jobs
    have no row to lock.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"switches of {cluster}",))


def read_switches(cluster: str) -> list[dict[str, object]]:
    """Return the switches of a cluster by job, and the time of each."""
    stored = DistributedJobSwitch.objects.filter(cluster=cluster).order_by("job")
    return [dict(row) for row in stored.values("job", "is_disabled", "changed_by", "changed_at")]


def request_rebalance(*, cluster: str, made_by: str, now: dt.datetime) -> None:
    """
    Request that the main node of a cluster distributes all items again by its strategy.

    Raises:
        BadName: the name of the cluster is invalid.
    """
    checked("cluster", cluster)
    with transaction.atomic():
        RedistributionRequest.objects.update_or_create(cluster=cluster, defaults={"asked_at": now, "asked_by": made_by})
        message = f"{made_by} requested a rebalance of the cluster {cluster}"
        record_request(message, made_by=made_by, cluster=cluster)
