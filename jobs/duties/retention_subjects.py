"""
The subjects of retention. Each has rows that are deleted at an age, and a setting for this age if operators may choose
it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, LiteralString

from jobs.queue.pace.hours import KEPT_DAYS
from jobs.settings.kept import KEEP_EVIDENCE, KEEP_FAILURES, KEEP_JOURNALS, KEEP_NODES, KEEP_VERSIONS
from jobs.settings.table import KEEP_HISTORY, KEEP_REMOVED
from jobs.state.run_samples import SAMPLES_KEPT
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.declaration import Setting
from nodes.settings.running import current

# Number of newest runs of a job whose counts are kept.
KEPT_RUNS: Final = 10
# Largest number of kept versions of one object.
KEPT_VERSIONS: Final = 200
# Days for which ended restorations are listed.
_RESTORATIONS: Final = 30
# Days for which verifications of outputs are kept. The last verification of each output stays.
_VERIFICATIONS: Final = 90

_OLD_JOURNALS: Final[LiteralString] = (
    "FROM jobs_jobevent WHERE id IN (SELECT id FROM jobs_jobevent WHERE at < %(before)s ORDER BY id LIMIT %(most)s)"
)
# The newest version of an object stays while the object exists.
_OLD_VERSIONS: Final[LiteralString] = """
FROM jobs_definitionversion
 WHERE id IN (SELECT old.id FROM jobs_definitionversion AS old
               WHERE old.at < %(before)s
                 AND (EXISTS (SELECT FROM jobs_definitionversion AS newer
                               WHERE newer.definition = old.definition AND newer.object_id = old.object_id
                                 AND newer.id > old.id)
                      OR NOT CASE old.definition
                         WHEN 'job' THEN EXISTS (SELECT FROM jobs_job WHERE id = old.object_id)
                         WHEN 'policy' THEN EXISTS (SELECT FROM jobs_throttlepolicy WHERE id = old.object_id)
                         WHEN 'output' THEN EXISTS (SELECT FROM jobs_outputconnection WHERE id = old.object_id)
                         ELSE EXISTS (SELECT FROM jobs_repositoryconnection WHERE id = old.object_id) END)
               ORDER BY old.at LIMIT %(most)s)
"""
_MORE_VERSIONS: Final[LiteralString] = f"""
FROM jobs_definitionversion
 WHERE id IN (SELECT old.id FROM jobs_definitionversion AS old
                JOIN (SELECT definition, object_id, max(number) AS newest FROM jobs_definitionversion
                       GROUP BY definition, object_id HAVING count(*) > {KEPT_VERSIONS}) AS many
                  ON many.definition = old.definition AND many.object_id = old.object_id
               WHERE old.number <= many.newest - {KEPT_VERSIONS} AND old.at <= %(before)s LIMIT %(most)s)
"""
# The terms of ended one-shot commands, except for scopes with a waiting job.
_OLD_TERMS: Final[LiteralString] = f"""
FROM nodes_mainterm AS term
 WHERE term.scope <> '{CLUSTER_SCOPE}' AND term.since < %(before)s
   AND NOT EXISTS (SELECT FROM nodes_node AS node WHERE node.scope = term.scope AND node.stopped_at IS NULL)
   AND NOT EXISTS (SELECT FROM jobs_job AS job WHERE job.node_scope = term.scope)
"""
# The oldest rows have the lowest ids.
_OLD_EVENTS: Final[LiteralString] = """
FROM nodes_nodeevent
 WHERE id IN (SELECT id FROM (SELECT id, at FROM nodes_nodeevent ORDER BY id LIMIT %(most)s) AS oldest WHERE at < %(before)s)
"""
_OLD_REQUESTS: Final[LiteralString] = (
    "FROM nodes_clusterrequest WHERE id IN (SELECT id FROM nodes_clusterrequest WHERE ended_at < %(before)s LIMIT %(most)s)"
)
_OLD_NODES: Final[LiteralString] = """
FROM nodes_node
 WHERE id IN (SELECT node.id FROM nodes_node AS node
               WHERE node.stopped_at < %(before)s
                 AND NOT EXISTS (SELECT FROM nodes_nodeevent AS event WHERE event.node_id = node.id)
                 AND NOT EXISTS (SELECT FROM nodes_mainterm AS term WHERE term.main_id = node.id)
                 AND NOT EXISTS (SELECT FROM jobs_throttlegroup AS held WHERE held.owner_id = node.id)
               ORDER BY node.id LIMIT %(most)s FOR UPDATE SKIP LOCKED)
"""
_OLD_ANSWERS: Final[LiteralString] = """
FROM nodes_keptanswer
 WHERE id IN (SELECT id FROM nodes_keptanswer WHERE made_at < %(before)s ORDER BY made_at LIMIT %(most)s)
"""
# Django deletes a session at a log-out, but it does not delete a session that has expired.
_ENDED_SESSIONS: Final[LiteralString] = """
FROM django_session
 WHERE session_key IN (SELECT session_key FROM django_session WHERE expire_date < %(before)s
                        ORDER BY expire_date LIMIT %(most)s)
   AND expire_date < %(before)s
"""
_OLD_HOURS_OF_HOSTS: Final[LiteralString] = """
FROM jobs_binhour
 WHERE (bin_id, hour) IN (SELECT bin_id, hour FROM jobs_binhour WHERE hour < %(before)s ORDER BY hour LIMIT %(most)s)
"""
_OLD_FAILURE_HOURS: Final[LiteralString] = """
FROM jobs_failurehour
 WHERE (group_id, hour) IN (SELECT group_id, hour FROM jobs_failurehour WHERE hour < %(before)s ORDER BY hour LIMIT %(most)s)
"""
# Checked again under the lock of the row, because the failure may have occurred again.
_OLD_FAILURES: Final[LiteralString] = """
FROM jobs_failuregroup
 WHERE id IN (SELECT id FROM jobs_failuregroup WHERE last_at < %(before)s ORDER BY last_at LIMIT %(most)s)
   AND last_at < %(before)s
"""
_DELETED_JOBS: Final[LiteralString] = "FROM jobs_deletedjob WHERE deleted_at < %(before)s"
_ENDED_RESTORATIONS: Final[LiteralString] = "FROM jobs_restoration WHERE ended_at < %(before)s"
# Only the last ended verification of an output keeps the list of its documents.
_OLD_FAULTS: Final[LiteralString] = """
FROM jobs_outputfault
 WHERE id IN (SELECT found.id FROM jobs_outputfault AS found
                JOIN jobs_outputverification AS old ON old.id = found.verification_id
               WHERE EXISTS (SELECT FROM jobs_outputverification AS newer
                              WHERE newer.output_id = old.output_id AND newer.id > old.id AND newer.ended_at < %(before)s)
                 AND (old.ended_at IS NOT NULL OR old.moved_at < %(before)s - interval '1 day')
               LIMIT %(most)s)
"""
_OLD_VERIFICATIONS: Final[LiteralString] = """
FROM jobs_outputverification
 WHERE id IN (SELECT old.id FROM jobs_outputverification AS old
               WHERE old.moved_at < %(before)s
                 AND NOT EXISTS (SELECT FROM jobs_outputfault AS found WHERE found.verification_id = old.id)
                 AND EXISTS (SELECT FROM jobs_outputverification AS newer
                              WHERE newer.output_id = old.output_id AND newer.id > old.id AND newer.ended_at IS NOT NULL)
               LIMIT %(most)s)
"""
# The last ended verification of archives stays, with its faults.
_OLDER_OF_ARCHIVES: Final[LiteralString] = """
SELECT old.id FROM jobs_archiveverification AS old
 WHERE old.moved_at < %(before)s
   AND EXISTS (SELECT FROM jobs_archiveverification AS newer WHERE newer.id > old.id AND newer.ended_at IS NOT NULL)
"""
_OLD_ARCHIVE_FAULTS: Final[LiteralString] = f"""
FROM jobs_archivefault
 WHERE id IN (SELECT id FROM jobs_archivefault WHERE verification_id IN ({_OLDER_OF_ARCHIVES}) LIMIT %(most)s)
"""
_OLD_ARCHIVE_VERIFICATIONS: Final[LiteralString] = f"""
FROM jobs_archiveverification AS old
 WHERE old.id IN ({_OLDER_OF_ARCHIVES} LIMIT %(most)s)
   AND NOT EXISTS (SELECT FROM jobs_archivefault AS found WHERE found.verification_id = old.id)
"""
# A count of documents is deleted only when it is 0, because a delta that is folded at the same time inserts the row
# again. Counts of events can be deleted: they belong to a run that has ended.
_OLD_COUNTS: Final[tuple[LiteralString, ...]] = tuple(
    f"""
FROM {table} WHERE id IN (
    SELECT counter.id FROM {table} AS counter JOIN jobs_job AS job ON job.id = counter.job_id
     WHERE counter.run_no <= job.run_no - {KEPT_RUNS} AND (counter.measure <> 'stage' OR counter.amount = 0)
     LIMIT %(most)s FOR UPDATE OF counter SKIP LOCKED)
   AND (measure <> 'stage' OR amount = 0)
"""
    for table in ("jobs_counter", "jobs_jobcounter")
)
_OLD_SAMPLES: Final[LiteralString] = f"""
FROM jobs_runsample
 WHERE run_id IN (SELECT sample.run_id FROM jobs_runsample AS sample JOIN jobs_run AS run ON run.id = sample.run_id
                    JOIN jobs_job AS job ON job.id = run.job_id
                   WHERE run.run_no <= job.run_no - {SAMPLES_KEPT} LIMIT %(most)s)
"""
_OLD_DIFFERENCES: Final[LiteralString] = f"""
FROM jobs_rundifference
 WHERE id IN (SELECT difference.id FROM jobs_rundifference AS difference JOIN jobs_job AS job ON job.id = difference.job_id
               WHERE difference.run_no <= job.run_no - {SAMPLES_KEPT} LIMIT %(most)s)
"""
# The first blocks of each chain. A late report becomes a later block, so blocks are old by the time at which they were
# appended. A trigger keeps the hash of the last deleted block.
_OLD_EVIDENCE: Final[LiteralString] = """
FROM jobs_evidenceblock
 WHERE (chain_id, seq) IN (
    SELECT oldest.chain_id, oldest.seq
      FROM (SELECT id, pruned_seq FROM jobs_evidencechain AS chain
             WHERE (SELECT appended_at FROM jobs_evidenceblock
                     WHERE chain_id = chain.id AND seq = chain.pruned_seq + 1) < %(before)s
             ORDER BY id OFFSET 0) AS chain
     CROSS JOIN LATERAL (
            SELECT chain_id, seq, max(appended_at) OVER (ORDER BY seq) AS latest FROM jobs_evidenceblock
             WHERE chain_id = chain.id AND seq BETWEEN chain.pruned_seq + 1 AND chain.pruned_seq + 500) AS oldest
     WHERE oldest.latest < %(before)s
     ORDER BY oldest.chain_id, oldest.seq LIMIT %(most)s)
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table that are deleted at an age, in chunks; 0 days means immediately."""

    statement: LiteralString
    days: Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class Days:
    """A table with a partition for each day, whose partitions are dropped at an age of `days`."""

    table: str
    column: str
    days: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """
    A subject of retention, by name. `setting` has the age at which its rows are deleted, if operators may choose this
    age.
    """

    name: str
    title: str
    setting: Setting[int] | None
    tables: tuple[Rows | Days, ...]


def _of(setting: Setting[int]) -> Callable[[], int]:
    return lambda: current()[setting]


def _journals() -> int | None:
    return current()[KEEP_JOURNALS] or None


def _evidence() -> int | None:
    return current()[KEEP_EVIDENCE] or None


SUBJECTS: Final[Mapping[str, Subject]] = {
    subject.name: subject
    for subject in (
        Subject(
            name="history",
            title="history of requests, writes and removals",
            setting=KEEP_HISTORY,
            tables=(Days("jobs_activity", "started_at", _of(KEEP_HISTORY)),),
        ),
        Subject(
            name="tombstones",
            title="removed documents, deleted jobs, and lists of restorations",
            setting=KEEP_REMOVED,
            tables=(
                Days("jobs_tombstone", "removed_at", _of(KEEP_REMOVED)),
                Rows(_DELETED_JOBS, _of(KEEP_REMOVED)),
                Rows(_ENDED_RESTORATIONS, lambda: _RESTORATIONS),
            ),
        ),
        Subject(
            name="journals",
            title="journals of jobs",
            setting=KEEP_JOURNALS,
            tables=(Rows(_OLD_JOURNALS, _journals),),
        ),
        Subject(
            name="evidence",
            title="evidence of politeness",
            setting=KEEP_EVIDENCE,
            tables=(Rows(_OLD_EVIDENCE, _evidence),),
        ),
        Subject(
            name="versions",
            title=f"versions of jobs, policies and connections, and all but the newest {KEPT_VERSIONS} of each",
            setting=KEEP_VERSIONS,
            tables=(Rows(_OLD_VERSIONS, _of(KEEP_VERSIONS)), Rows(_MORE_VERSIONS, lambda: 0)),
        ),
        Subject(
            name="failures",
            title="failures that did not occur again, and the hours of their trends",
            setting=KEEP_FAILURES,
            tables=tuple(Rows(statement, _of(KEEP_FAILURES)) for statement in (_OLD_FAILURE_HOURS, _OLD_FAILURES)),
        ),
        Subject(
            name="nodes",
            title="ended nodes with their events, requests and terms",
            setting=KEEP_NODES,
            tables=tuple(
                Rows(statement, _of(KEEP_NODES)) for statement in (_OLD_TERMS, _OLD_EVENTS, _OLD_REQUESTS, _OLD_NODES)
            ),
        ),
        Subject(
            name="answers",
            title="answers of the API after a day, and ended sessions of users",
            setting=None,
            tables=(Rows(_OLD_ANSWERS, lambda: 1), Rows(_ENDED_SESSIONS, lambda: 0)),
        ),
        Subject(
            name="runs",
            title=f"counts of all runs but the last {KEPT_RUNS}, samples and differences of documents of all runs but the last {SAMPLES_KEPT}, rates of hosts after {KEPT_DAYS} days, and verifications of outputs after {_VERIFICATIONS} days",
            setting=None,
            tables=(
                *(
                    Rows(statement, lambda: 0)
                    for statement in (*_OLD_COUNTS, _OLD_SAMPLES, _OLD_DIFFERENCES, _OLD_FAULTS)
                ),
                Rows(_OLD_HOURS_OF_HOSTS, lambda: KEPT_DAYS),
                Rows(_OLD_VERIFICATIONS, lambda: _VERIFICATIONS),
                Rows(_OLD_ARCHIVE_FAULTS, lambda: _VERIFICATIONS),
                Rows(_OLD_ARCHIVE_VERIFICATIONS, lambda: _VERIFICATIONS),
            ),
        ),
    )
}
