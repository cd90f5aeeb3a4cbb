"""Proves that a transition writes the same number of rows for jobs of any size, and no row of a document."""

from collections import Counter

import pytest
from django.db import connection as django_connection

from jobs.duties.allocate import allocate_groups
from jobs.duties.connectors import watch_connectors
from jobs.duties.finish import end_runs
from jobs.duties.reseed import begin_reseeding
from jobs.duties.start import prepare_runs, seed_seeds
from jobs.duties.transient_jobs import pass_on
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Job, Outcome, QueueItem, RepositoryConnection
from jobs.verbs import control
from tests.support.cluster import seconds
from tests.support.factories import make_documents, make_job, make_lane, make_running_job
from tests.support.stepping import Main

_WRITTEN = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname LIKE 'jobs_%'"


@pytest.fixture
def main(connection):
    return Main(connection)


class Writes:
    """Counts, by table, the rows that were written after this object was created."""

    def __init__(self, *connections):
        self._connections = connections
        self._before = self._look()

    def by_table(self):
        return dict(self._look() - self._before)

    def _look(self):
        for one in self._connections:
            # A session reports its statistics late, unless it is forced to.
            one.execute("SELECT pg_stat_force_next_flush()")
            one.execute("SELECT 1")
        self._connections[0].execute("SELECT pg_stat_clear_snapshot()")
        return Counter(dict(self._connections[0].execute(_WRITTEN).fetchall()))


def writes_of_a_run(main, documents):
    """Return the rows written from the start of a job with this number of documents to the end of its aborted run."""
    job = make_job(f"of {documents}", urls=[f"http://size-{documents}.example/"])
    make_documents(
        make_lane(job.seeds.get(), f"size-{documents}.example"),
        [f"{documents} {number}" for number in range(documents)],
        stage=Stage.DONE,
        outcome=Outcome.INDEXED,
        run_no=0,
        check_time=None,
        seq=None,
    )
    main.step(allocate_groups)
    django_connection.ensure_connection()
    writes = Writes(main.connection, django_connection.connection)
    reached = []

    def note():
        reached.append(Job.objects.get(pk=job.pk).manifoldcf_status)

    def ask(verb):
        control.VERBS[verb].perform(job.pk, made_by="a test", now=main.now)

    ask("start")
    main.step(allocate_groups, prepare_runs)
    note()
    before_seeding = writes.by_table()
    main.step(seed_seeds)
    note()
    after_seeding = Writes(main.connection, django_connection.connection)
    for verb, duties in (("pause", [end_runs]), ("resume", [pass_on]), ("abort", [end_runs])):
        ask(verb)
        note()
        main.step(*duties)
        note()
    assert reached == ["STARTINGUP", "ACTIVE", "PAUSING", "PAUSED", "RESUMING", "ACTIVE", "ABORTING", "INACTIVE"]
    return before_seeding, after_seeding.by_table()


def test_transitions_write_as_many_rows_for_few_documents_as_for_many(main):
    few = writes_of_a_run(main, 10)
    many = writes_of_a_run(main, 2_000)

    assert few == many
    # The start is requested, the run is prepared, and its seeds have joined a group.
    assert few[0]["jobs_job"] == 3
    assert few[1]["jobs_job"] == 7
    assert not any(table in {"jobs_queueitem", "jobs_outlinks"} for part in few for table in part)


def test_a_running_job_is_checked_for_new_seeds_once_and_after_additions(main):
    job = make_job()
    job.seeds.update(seeded_run=1)
    Job.objects.update(phase=Phase.ACTIVE, run_no=1)

    assert main.step(begin_reseeding) == 0
    assert Job.objects.get().unread == 0

    job.seeds.create(urls=["http://new.example/"])
    assert main.step(begin_reseeding) == 1
    assert Job.objects.get().seeding


def test_a_job_rereads_all_its_seeds_exactly_when_they_are_due(main):
    job = make_job()
    job.seeds.update(seeded_run=1)
    Job.objects.update(
        phase=Phase.ACTIVE, run_no=1, kind="continuous", reseed_after=seconds(60), reseed_at=main.now + seconds(1)
    )
    assert main.step(begin_reseeding) == 0

    main.now += seconds(1)
    assert main.step(begin_reseeding) == 1

    assert (Job.objects.get().reseed_at, job.seeds.get().seeded_run) == (main.now + seconds(60), 0)


def test_a_job_that_waits_to_reread_its_seeds_is_resumed_immediately(main):
    make_job()
    Job.objects.update(phase=Phase.ACTIVE, run_no=1, seeding=True, resuming=True, retry_at=main.now + seconds(300))

    main.step(pass_on)

    assert not Job.objects.get().resuming


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"stage": Stage.DONE}, {"stage": Stage.PENDING, "depth": 0, "validators": ""}),
        # The documents were read in the previous run.
        ({"stage": Stage.DONE, "run_no": 0}, {"stage": Stage.PENDING, "depth": 0, "validators": ""}),
        ({"stage": Stage.PENDING}, {"stage": Stage.PENDING, "depth": 0}),
        ({"stage": Stage.ACTIVE}, {"stage": Stage.ACTIVE, "depth": 0, "rescan": True}),
    ],
)
@pytest.mark.parametrize(("connector", "specification"), [("web", {"max_depth": 1}), ("web", {}), ("feed", {})])
def test_a_new_seed_that_the_run_found_far_away_is_read_for_its_links(main, before, after, connector, specification):
    """Feeds have no such limit, but only their seeds are read as feeds."""
    running = make_running_job(main.node, specification=specification)
    RepositoryConnection.objects.update(connector=connector)
    is_read = connector == "feed" or bool(specification)
    Job.objects.update(seeding=True)
    main.step(seed_seeds)
    far = {"depth": 1, "validators": "etag", "batch": None, "seq": 1, **before}
    if before["stage"] == Stage.ACTIVE:
        far["batch"] = 1
    QueueItem.objects.update(**far)

    running.job.seeds.update(seeded_run=0)
    Job.objects.update(seeding=True)
    main.step(seed_seeds)

    item = QueueItem.objects.get()
    if "run_no" in before and not is_read:
        after = {"stage": Stage.PENDING, "depth": 0, "validators": "etag"}
    expected = after if is_read or "run_no" in before else {"stage": before["stage"], "depth": 1}
    assert {name: getattr(item, name) for name in expected} == expected


@pytest.mark.parametrize(("phase", "is_ready"), [(Phase.ACTIVE, False), (Phase.DELETING, True)])
def test_a_job_is_deleted_although_its_source_is_not_installed(main, phase, is_ready):
    job = make_job()
    job.repository.connector = "uninstalled"
    job.repository.save()
    Job.objects.update(phase=phase, connectors_ready=not is_ready)

    main.step(watch_connectors)

    assert Job.objects.get().connectors_ready == is_ready
