"""
The facts about one address: the documents that have it in jobs, their hosts, and the rules of their jobs.

A limited number of statements reads them, each by an index, so the cost does not grow with the number of documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, LiteralString

from django.db import connection
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier, Judged, Judging, SourceSettings
from jobs.connectors.repository.web.kind import WEB
from jobs.connectors.repository.web.urls import OverLimit, bin_of, is_unicode, typed_without_userinfo
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Bin, Job, QueueItem, Robots, SeedRedirect
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import read_states
from nodes.errors import Invalid, Unknown

# Largest number of jobs that have a section in one explanation, and of further jobs that are only named.
MOST_SECTIONS: Final = 5
MOST_NAMED: Final = 50
# Largest numbers of seeds and of redirects that are read to judge the scope of the jobs, and the largest list of
# addresses of a seed (bytes).
_SEEDS: Final = 2_000
_REDIRECTS: Final = 1_000
_LARGEST_SEED: Final = 200_000
# An unknown address is judged by the rules of the jobs that have lanes on its host. This is the largest number of these
# lanes that are read.
_LANES: Final = 500
# Largest number of documents that are counted ahead of a document in its queue.
COUNTED_IN_LINE: Final = 1_000
_LONGEST: Final = 10_000

_SEEDS_OF: Final[LiteralString] = """
SELECT seed.job_id, seed.policy_id, policy.name AS policy,
       CASE WHEN pg_column_size(seed.urls) <= %(largest)s THEN seed.urls END AS urls
  FROM jobs_seed AS seed LEFT JOIN jobs_throttlepolicy AS policy ON policy.id = seed.policy_id
 WHERE seed.job_id = ANY(%(jobs)s) AND seed.removed_at IS NULL ORDER BY seed.id LIMIT %(most)s
"""
# Counts the due documents of the lane with a lower `seq`, from the head of the lane on. An index has exactly these
# documents.
_BEFORE: Final[LiteralString] = f"""
SELECT count(*) AS documents
  FROM (SELECT FROM jobs_queueitem
         WHERE lane_id = %(lane)s AND run_no = %(run)s AND stage = {Stage.PENDING:d} AND seq IS NOT NULL AND seq < %(seq)s
           AND seq >= coalesce((SELECT head FROM {read_states("head", of="lane", number="%(lane)s")} AS state), 0)
         LIMIT {COUNTED_IN_LINE + 1}) AS earlier
"""


@dataclass(frozen=True, slots=True)
class Address:
    """
    An address as it was typed, the identifier that it means, and its host; `trap` is the reason why the crawler refuses
    the address for any job, or "".
    """

    typed: str
    identifier: str
    trap: str = ""

    @property
    def host(self) -> str:
        """Return the host of a web address; "" for another identifier."""
        is_of_web = not self.trap and self.identifier.startswith(("http://", "https://"))
        return bin_of(self.identifier) if is_of_web else ""


@dataclass(frozen=True, slots=True)
class RulesOfJob:
    """
    The judgement of a job's rules. `judged` is None if only a fetch of the document would show the judgement. `problem`
    says why the stored rules cannot be used. `policies` has the names of the policies of the seeds, by id.
    """

    judged: Judged | None
    problem: str = ""
    is_seed: bool = False
    policies: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """
    The documents with this address, or the jobs that may find such a document. `more` are the names of further jobs.
    """

    address: Address
    items: Sequence[QueueItem] = ()
    jobs: Sequence[Job] = ()
    more: Mapping[int, str] = field(default_factory=dict)


def read_address(typed: str) -> Address:
    """
    Return the address that a person typed.

    Raises:
        Invalid: no kind of source has such an address.
    """
    typed = typed_without_userinfo(typed.strip())
    if not typed:
        raise Invalid({"url": ["Write an address, such as https://www.example.com/a/page."]})
    if len(typed) > _LONGEST or "\0" in typed or not is_unicode(typed):
        raise Invalid({"url": [f"An address is valid Unicode of at most {_LONGEST:,} characters, without NUL."]})
    try:
        return Address(typed, WEB.canonical(typed))
    except OverLimit as trap:
        return Address(typed, typed, trap=trap.reason)
    except BadIdentifier as bad:
        meant = [one for one in registry.identifiers_meant(typed) if one != typed]
        if meant or _is_known(typed):
            return Address(typed, meant[0] if meant else typed)
        raise Invalid({"url": [f"{bad}."]}) from None


def _is_known(identifier: str) -> bool:
    """
    True if a job has a document with exactly this identifier. Sources other than the web have identifiers of other
    forms.
    """
    return QueueItem.objects.filter(hash=hash_of(identifier)).exists()


def find(address: Address, *, job_id: int | None) -> Found:
    """
    Return the documents with this address; if there is none, the jobs that may come to know it.

    Raises:
        Unknown: there is no job with this id.
    """
    if job_id is not None and not Job.objects.filter(pk=job_id).exists():
        raise Unknown("job", job_id)
    known, names = _documents_of(address)
    if job_id is not None:
        known = known.filter(job=job_id)
    items = list(_with_related_rows(known)[:MOST_SECTIONS]) if names else []
    if items:
        shown = {item.job_id for item in items}
        return Found(address, items=items, more={id_: name for id_, name in names.items() if id_ not in shown})
    jobs = list(Job.objects.filter(pk=job_id).select_related("repository")) if job_id else _jobs_near(address)
    return Found(address, jobs=jobs, more=names)


def _documents_of(address: Address) -> tuple[QuerySet[QueueItem], dict[int, str]]:
    """
    Return the documents with this address, and the names of their jobs. If documents have the normal form of the
    address, return these documents only.
    """
    known = QueueItem.objects.filter(hash=hash_of(address.identifier))
    names = _names_of(known)
    if not names and address.typed != address.identifier:
        known = QueueItem.objects.filter(hash=hash_of(address.typed))
        names = _names_of(known)
    return known, names


def _names_of(items: QuerySet[QueueItem]) -> dict[int, str]:
    return dict(items.values_list("job_id", "job__name")[:MOST_NAMED])


def _with_related_rows(items: QuerySet[QueueItem]) -> QuerySet[QueueItem]:
    related = items.select_related(
        *("job__repository", "job__budget", "lane__seed__policy", "lane__bin", "batch__worker", "batch__group")
    )
    # The rows of one hash are few.
    return related.order_by(F("job__started_at").desc(nulls_last=True), "job_id")


def _jobs_near(address: Address) -> list[Job]:
    """Return the jobs that have reached the host of an address; for an address without a host, the latest jobs."""
    with_source = Job.objects.select_related("repository").exclude(phase=Phase.DELETING)
    if address.host:
        bins = Bin.objects.filter(namespace=WEB.bins.namespace, name=address.host, lanes__isnull=False)
        seeds = bins.values_list("lanes__seed__job", flat=True)[:_LANES]
        ids = sorted(set(seeds), reverse=True)[:MOST_SECTIONS]
        if ids:
            return list(with_source.filter(pk__in=ids).order_by("pk"))
    # The order of the index of jobs.
    running = list(with_source.exclude(phase=Phase.INACTIVE).order_by("-pk")[:MOST_SECTIONS])
    if len(running) == MOST_SECTIONS:
        return running
    latest = with_source.filter(phase=Phase.INACTIVE).order_by(Coalesce("started_at", "created_at").desc(), "pk")
    return [*running, *latest[: MOST_SECTIONS - len(running)]]


def read_rules(jobs: Sequence[Job], address: Address) -> dict[int, RulesOfJob]:
    """Return the judgement of the rules of each of these jobs, by its id."""
    ids = [job.pk for job in jobs]
    seeds, policies, large = _read_seeds(ids)
    redirects: dict[int, list[tuple[str, str]]] = {}
    for redirect in SeedRedirect.objects.filter(job__in=ids, is_followed=True)[:_REDIRECTS]:
        redirects.setdefault(redirect.job_id, []).append((redirect.source, redirect.target))
    return {
        job.pk: RulesOfJob(None, policies=policies.get(job.pk, {}))
        if job.pk in large
        else _judge(
            job,
            address,
            seeds=seeds.get(job.pk, []),
            redirects=redirects.get(job.pk, []),
            policies=policies.get(job.pk, {}),
        )
        for job in jobs
    }


def _read_seeds(job_ids: Sequence[int]) -> tuple[dict[int, list[str]], dict[int, dict[int, str]], set[int]]:
    """Return the addresses and the policies of the seeds of jobs, and the jobs that have too many seeds to read."""
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        facts = {"jobs": list(job_ids), "largest": _LARGEST_SEED, "most": _SEEDS + 1}
        rows = cursor.execute(_SEEDS_OF, facts).fetchall()
    addresses: dict[int, list[str]] = {}
    policies: dict[int, dict[int, str]] = {}
    for row in rows:
        addresses.setdefault(row.job_id, []).extend(row.urls or ())
        if row.policy_id is not None:
            policies.setdefault(row.job_id, {})[row.policy_id] = row.policy
    large = {row.job_id for row in rows if row.urls is None}
    return addresses, policies, large | set(job_ids if len(rows) > _SEEDS else ())


def _judge(
    job: Job,
    address: Address,
    *,
    seeds: Sequence[str],
    redirects: Sequence[tuple[str, str]],
    policies: Mapping[int, str],
) -> RulesOfJob:
    source = SourceSettings(
        configuration=job.repository.configuration,
        specification=job.specification,
        seeds=seeds,
        redirects=redirects,
        is_confined=job.repository.is_confined,
    )
    try:
        kind = registry.find(job.repository.connector)
        if not isinstance(kind, Judging):
            return RulesOfJob(None, policies=policies)
        is_seed = address.identifier in {kind.canonical(seed) for seed in seeds}
        judged = kind.judge(source, address.identifier, is_seed=is_seed)
    except (registry.UnknownConnector, ValueError) as problem:
        return RulesOfJob(None, problem=str(problem), policies=policies)
    return RulesOfJob(judged, is_seed=is_seed, policies=policies)


def read_robots(origins: Sequence[str]) -> dict[str, Robots]:
    """Return the stored robots.txt of these origins, even one that has expired."""
    return Robots.objects.in_bulk(sorted({origin for origin in origins if origin}))


def count_before(item: QueueItem) -> int:
    """Return the number of due documents of its lane before a document; above COUNTED_IN_LINE it is a lower limit."""
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        row = cursor.execute(_BEFORE, {"lane": item.lane_id, "run": item.run_no, "seq": item.seq}).fetchone()
    assert row is not None
    return int(row.documents)


def find_bin(name: str) -> int | None:
    """Return the id of the web host with this name; None if no crawl has reached it."""
    found = Bin.objects.filter(namespace=WEB.bins.namespace, name=name).values_list("pk", flat=True)
    return found.first()
