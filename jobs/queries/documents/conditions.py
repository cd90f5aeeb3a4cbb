"""Conditions on documents by their address, a text in it, their host or their result code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Collate

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier
from jobs.connectors.repository.web.urls import bin_of, canonical
from jobs.lifecycle.document import Stage
from jobs.models import Bin, Lane, Outcome
from jobs.queue import address_index

# If a filter concerns few lanes, documents are found by these lanes. The planner needs the list of lanes to estimate
# the number of documents, and to choose between the index of lanes and the order of keys. A job with more lanes has
# enough documents for the order of keys.
FEW_LANES: Final = 1_000
_LANES_OF: Final = """
SELECT lane.id FROM jobs_lane AS lane {joined} WHERE {conditions} LIMIT %(limit)s
"""
_OF_JOB: Final = ("JOIN jobs_seed AS seed ON seed.id = lane.seed_id", "seed.job_id = %(job)s")
OF_HOST: Final = (
    "JOIN jobs_bin AS bin ON bin.id = lane.bin_id",
    """bin.namespace NOT IN ('address', 'policy') AND bin.name COLLATE "C" = %(host)s""",
)
_OUTCOMES_OF_CODE: Final = f"""
SELECT outcome
  FROM generate_series({Outcome.INDEXED:d}, {Outcome.EXCLUDED:d}) AS outcome
 WHERE EXISTS (SELECT FROM jobs_jobcounter
                WHERE stage = {Stage.DONE:d} AND outcome = outcome.outcome AND code = %(code)s AND measure = 'stage' AND amount > 0
                  AND (%(job)s::bigint IS NULL OR job_id = %(job)s))
    OR EXISTS (SELECT FROM jobs_counterdelta
                WHERE stage = {Stage.DONE:d} AND outcome = outcome.outcome AND code = %(code)s AND measure = 'stage' AND amount > 0
                  AND (%(job)s::bigint IS NULL OR job_id = %(job)s))
"""


def containing(text: str, *, job_id: int | None) -> tuple[str, dict[str, Any]]:
    """Return the condition that the address of a document `item` contains a text, and its parameters."""
    connection.ensure_connection()
    return address_index.condition(connection.connection, text, job_id=job_id)


def keys_meant(address: str) -> list[str]:
    """Return the possible keys of a document with this address, as an operator wrote it, for any kind of source."""
    return [hash_of(meant) for meant in registry.identifiers_meant(address)]


def hashes_of(address: str) -> list[str]:
    """Return the keys of documents with this address: as it is written, and as the web connector writes it."""
    try:
        written = {address, canonical(address)}
    except BadIdentifier:
        written = {address}
    return sorted(hash_of(identifier) for identifier in written)


def host_of(beginning: str) -> str:
    """Return the host of addresses with this beginning; "" if the beginning names no host in full."""
    scheme, _, rest = beginning.partition("://")
    if scheme not in {"http", "https"} or "/" not in rest:
        return ""
    try:
        return bin_of(canonical(beginning))
    except BadIdentifier:
        return ""


def lanes_if_few(*, job_id: int | None, host: str) -> list[int] | None:
    """
    Return the lanes that may have documents of a job or host; None if there are many, or if neither a job nor a host is
    given.
    """
    asked = [one for one, is_asked in ((_OF_JOB, job_id is not None), (OF_HOST, bool(host))) if is_asked]
    if not asked:
        return None
    statement = _LANES_OF.format(
        joined=" ".join(joined for joined, _ in asked), conditions=" AND ".join(condition for _, condition in asked)
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"job": job_id, "host": host, "limit": FEW_LANES + 1})
        lanes = [row[0] for row in cursor.fetchall()]
    return lanes if len(lanes) <= FEW_LANES else None


def lanes_of_host(host: str) -> QuerySet[Lane]:
    """
    Return all lanes of a host. The condition is spelled like the index of the names of hosts, which otherwise would not
    be used.
    """
    of_hosts = Lane.objects.exclude(bin__namespace__in=[Bin.ADDRESS, Bin.POLICY])
    return of_hosts.alias(host=Collate("bin__name", "C")).filter(host=host)


def outcomes_of_code(code: str, *, job_id: int | None) -> list[int]:
    """Return the outcomes of documents that ended with this result code, in all jobs or in one."""
    with connection.cursor() as cursor:
        cursor.execute(_OUTCOMES_OF_CODE, {"code": code, "job": job_id})
        return [row[0] for row in cursor.fetchall()]


@contextmanager
def keeping_to_keys(*, is_of_few: bool) -> Iterator[None]:
    """
    Make the planner read a list in the order of keys, from an index, except for lists of few lanes or of claimed
    documents.

    The block needs a transaction. The planner assumes that the properties of documents are independent, so it would
    sort all documents if it expects few results.
    """
    switch = "SELECT set_config('enable_sort', %(to)s, true), set_config('enable_seqscan', %(to)s, true)"
    with connection.cursor() as cursor:
        cursor.execute(switch, {"to": "on" if is_of_few else "off"})
        yield
        cursor.execute(switch, {"to": "on"})
