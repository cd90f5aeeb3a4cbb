"""
Every operator's verb about distributed jobs, once: pages and the API translate and call these.

Nodes read the switches from time to time: what is disabled is told to stop, and the main gives it to nobody.
"""

import datetime as dt

from nodes.coordination.names import checked
from nodes.job_book import ALL, OTHERS
from nodes.models import DistributedJobSwitch, DistributedJobWish


class DistributedJobUnknown(Exception):
    """There is no such distributed job in the cluster."""

    def __init__(self, job: str, cluster: str) -> None:
        self.job, self.cluster = job, cluster
        super().__init__(f"There is no distributed job {job!r} in the cluster {cluster}.")


def set_switch(*, cluster: str, job: str, is_disabled: bool | None, made_by: str, now: dt.datetime) -> None:
    """
    Disable or enable a job, `ALL` of them, or all `OTHERS`; None takes the switch away.

    Raises:
        BadName: the cluster, or the job, has a name that it cannot have.
    """
    checked("cluster", cluster)
    if job not in {ALL, OTHERS}:
        checked("job", job)
    stored = DistributedJobSwitch.objects.filter(cluster=cluster, job=job)
    if is_disabled is None:
        stored.delete()
    else:
        DistributedJobSwitch.objects.update_or_create(
            cluster=cluster, job=job, defaults={"is_disabled": is_disabled, "changed_by": made_by, "changed_at": now}
        )


def wish_rebalance(*, cluster: str, made_by: str, now: dt.datetime) -> None:
    """
    Let the main of a cluster share all items out anew, by the strategy that it has, though nothing has changed.

    Raises:
        BadName: no cluster can be called so.
    """
    DistributedJobWish.objects.update_or_create(
        cluster=checked("cluster", cluster), defaults={"asked_at": now, "asked_by": made_by}
    )
