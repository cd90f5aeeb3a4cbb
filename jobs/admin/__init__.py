"""The set-up pages of the crawl. Each form and each action on them calls one function of `jobs.verbs`."""

from jobs.admin.cluster import (
    ClusterRequestAdmin,
    JobEventAdmin,
    NodeAdmin,
    NodeEventAdmin,
    ThrottleGroupAdmin,
)
from jobs.admin.connection import OutputConnectionAdmin, RepositoryConnectionAdmin
from jobs.admin.document import DocumentAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.policy import ThrottlePolicyAdmin
from jobs.admin.seed import SeedAdmin

__all__ = [
    "ClusterRequestAdmin",
    "DocumentAdmin",
    "JobAdmin",
    "JobEventAdmin",
    "NodeAdmin",
    "NodeEventAdmin",
    "OutputConnectionAdmin",
    "RepositoryConnectionAdmin",
    "SeedAdmin",
    "ThrottleGroupAdmin",
    "ThrottlePolicyAdmin",
]
