"""Comparison of documents that a clean-up would remove with the present rules of their job."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, LiteralString

from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import RepositoryKind, Selective, SourceSettings
from jobs.duties.context import Pass
from jobs.guard.decision import Refused
from jobs.models import Job, Seed

# Redirects of seeds to other hosts, which belong to the scope of the job like the seeds.
_REDIRECTS: Final[LiteralString] = """
SELECT source, target FROM jobs_seedredirect WHERE job_id = %(job)s AND is_followed ORDER BY hash LIMIT 10000
"""


def compare_with_rules(at: Pass, job: Any, identifiers: Sequence[str]) -> Refused:
    """Return the number of these documents that the rules of the job refuse now; 0 if its source has no rules."""
    row = Job.objects.select_related("repository").get(pk=job.id)
    kind = registry.installed().get(row.repository.connector)
    if kind is None:
        return Refused()
    seeds = Seed.objects.filter(job_id=job.id, removed_at=None).values_list("urls", flat=True)
    source = SourceSettings(
        configuration=row.repository.configuration,
        specification=row.specification,
        seeds=[url for urls in seeds for url in urls],
        redirects=at.connection.execute(_REDIRECTS, {"job": job.id}).fetchall(),
        is_confined=row.repository.is_confined,
    )
    return asyncio.run(_compare(kind, source, identifiers))


async def _compare(kind: RepositoryKind, source: SourceSettings, identifiers: Sequence[str]) -> Refused:
    # Asynchronous, because a connector has to be set up and closed inside an event loop. No request is sent here.
    runtime = kind.runtime()
    try:
        connector = runtime.open(source)
        if not isinstance(connector, Selective):
            return Refused()
        refused = sum(not connector.admits(identifier) for identifier in identifiers)
        return Refused(examined=len(identifiers), refused=refused)
    except ValueError:
        # The configuration is invalid for this process, so nothing is known about the documents.
        return Refused()
    finally:
        await runtime.close()
