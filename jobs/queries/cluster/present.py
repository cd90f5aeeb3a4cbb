"""The facts of the cluster at present, as they are kept for each minute (`jobs.queries.cluster.facts`)."""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.job import Phase
from jobs.models import Job
from jobs.queries.cluster.facts import Facts
from jobs.queue.counting.progress import MINUTE
from nodes.lifecycle import LIVE_STATUSES

# Largest numbers of jobs with a run, and of groups (the heaviest), that are kept. The number of groups of each owner
# counts all groups.
_JOBS_KEPT: Final = 500
_GROUPS_KEPT: Final = 240

_FACTS: Final[LiteralString] = """
SELECT 'main' AS section, '' AS key, jsonb_build_object('term', term, 'node', main_id) AS value
  FROM nodes_mainterm WHERE scope = %(scope)s AND NOT resigned AND main_id IS NOT NULL
UNION ALL
SELECT 'nodes', id::text,
       jsonb_build_object('name', name, 'kind', kind, 'status', status, 'machine', host, 'tags', tags)
  FROM nodes_node WHERE scope = %(scope)s AND status = ANY(%(live)s)
UNION ALL
SELECT 'owners', coalesce(owner_id::text, ''), jsonb_build_object('groups', count(*), 'weight', sum(weight))
  FROM jobs_throttlegroup WHERE node_scope = %(scope)s GROUP BY owner_id
UNION ALL
SELECT 'groups', held.id::text, jsonb_build_object(
           'name', coalesce((SELECT name FROM jobs_throttlepolicy WHERE id = held.policy_id),
                            (SELECT urls[1] FROM jobs_seed WHERE id = held.seed_id), ''),
           'weight', held.weight, 'owner', held.owner_id)
  FROM (SELECT id, policy_id, seed_id, weight, owner_id FROM jobs_throttlegroup WHERE node_scope = %(scope)s
         ORDER BY weight DESC, id LIMIT %(groups)s) AS held
UNION ALL
SELECT 'progress', job_id::text,
       jsonb_build_array(documents, bytes, requests, waiting, active, indexed, unchanged, failed, excluded)
  FROM jobs_progress
 WHERE step = %(step)s AND at = %(before)s AND job_id = ANY(%(jobs)s)
"""


def read_present(connection: psycopg.Connection[Any], *, scope: str, minute: dt.datetime) -> Facts:
    """Return the facts of a scope now. The progress is from the minute before `minute`."""
    running = Job.objects.filter(node_scope=scope).exclude(phase=Phase.INACTIVE).order_by("pk")[:_JOBS_KEPT]
    jobs = {str(job.pk): {"name": job.name, "status": job.status, "run": job.run_no} for job in running}
    known = {
        "scope": scope,
        "live": sorted(status.value for status in LIVE_STATUSES),
        "groups": _GROUPS_KEPT,
        # Job 0 stands for the sum of all jobs.
        "jobs": [0, *map(int, jobs)],
        "step": MINUTE,
        "before": minute - dt.timedelta(seconds=MINUTE),
    }
    facts: dict[str, dict[str, Any]] = {}
    for section, key, value in connection.execute(_FACTS, known):
        facts.setdefault(section, {})[key] = value
    return {**facts, "jobs": jobs} if jobs else facts
