"""
Every operator's verb about distributed jobs, once: pages and the API translate and call these.

Nodes read the switches from time to time: what is disabled is told to stop, and the main gives it to nobody.
"""

import datetime as dt

from django.db import connection, transaction

from jobs.changes import record_request
from nodes.coordination.names import checked
from nodes.job_book import ALL, OTHERS
from nodes.models import DistributedJobSwitch, DistributedJobWish


class DistributedJobUnknown(Exception):
    """There is no such distributed job in the cluster."""

    def __init__(self, job: str, cluster: str) -> None:
        self.job, self.cluster = job, cluster
        super().__init__(f"Cluster {cluster} has no distributed job {job!r}.")


def set_switch(*, cluster: str, job: str, is_disabled: bool | None, made_by: str, now: dt.datetime) -> None:
    """
    Disable or enable a job, `ALL` of them, or all `OTHERS`; None takes the switch away.

    Raises:
        BadName: the cluster, or the job, has a name that it cannot have.
    """
    checked("cluster", cluster)
    if job not in {ALL, OTHERS}:
        checked("job", job)
    named = {ALL: "all jobs", OTHERS: "jobs without a switch of their own"}.get(job, f"job {job}")
    asked = {True: "disabled", False: "enabled", None: "took away the switch of"}[is_disabled]
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
            f"{made_by} {asked} {named} of the cluster {cluster}",
            made_by=made_by,
            before={"is_disabled": before},
            after={"is_disabled": is_disabled},
            cluster=cluster,
            job=job,
        )


def lock_switches(cluster: str) -> None:
    """Keep other transactions from changing the switches of a cluster: most jobs have no row to lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"switches of {cluster}",))


def read_switches(cluster: str) -> list[dict[str, object]]:
    """Return the switches of a cluster by job, and when each was set."""
    stored = DistributedJobSwitch.objects.filter(cluster=cluster).order_by("job")
    return [dict(row) for row in stored.values("job", "is_disabled", "changed_by", "changed_at")]


def wish_rebalance(*, cluster: str, made_by: str, now: dt.datetime) -> None:
    """
    Let the main of a cluster share all items out anew, by the strategy that it has, though nothing has changed.

    Raises:
        BadName: no cluster can be called so.
    """
    checked("cluster", cluster)
    with transaction.atomic():
        DistributedJobWish.objects.update_or_create(cluster=cluster, defaults={"asked_at": now, "asked_by": made_by})
        message = f"{made_by} asked for a rebalance of the cluster {cluster}"
        record_request(message, made_by=made_by, cluster=cluster)
