"""The set-up pages of the crawl: each translates a form and calls one function of `control` or `connections`."""

from jobs.admin.connection import OutputConnectionAdmin, RepositoryConnectionAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.policy import ThrottlePolicyAdmin

__all__ = ["JobAdmin", "OutputConnectionAdmin", "RepositoryConnectionAdmin", "ThrottlePolicyAdmin"]
