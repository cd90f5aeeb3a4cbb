"""
Proves by random histories of a small cluster that its outputs end as an oracle predicts. The oracle knows only the
site.

Operators send random operations, documents fail or are interrupted, the site changes, and nodes die between any two
steps. Then each job makes a full run without disturbance. After it, the outputs must hold exactly what follows from the
site: the pages within the hop limit of each job, with their text and their carry-down data. Each step checks the
invariants.

To try many histories, different each time:

    CRAWLCTL_TEST_HISTORIES=1000 pytest --timeout 0 tests/integration/test_against_an_oracle.py
"""

import contextlib
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import IntegrityError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.job import Phase as JobPhase
from jobs.lifecycle.job import RunEnd, Scan
from jobs.lifecycle.scan import Model
from jobs.loops.restoring import perform_restoration
from jobs.models import Job, OutputConnection, ThrottleGroup
from jobs.state.transitions import TransitionRefused
from jobs.verbs import control, editing, restoring
from jobs.verbs.seeds import SeedWanted
from nodes.errors import Invalid, Refused, Unknown
from nodes.models import ClusterRequest
from tests.support.factories import make_output, make_policy
from tests.support.scripted import World, name_of, url_of
from tests.support.stepped_cluster import SteppedCluster

PAGES = ("a", "b", "c", "d", "e", "there/f", "there/g", "there/h")
# Number of random histories that differ in each run. 0 stands for a few histories that are the same in each run.
HISTORIES = int(os.environ.get("CRAWLCTL_TEST_HISTORIES", "0"))
# Number of rounds of work by all nodes after which an undisturbed run must have ended.
_MOST_ROUNDS = 150

_which = st.integers(0, 1)
_pages = st.sampled_from(PAGES)
# Texts of pages: few, so that a page may get an earlier text again.
_texts = st.sampled_from(["once", "twice", "thrice", None])
_links = st.lists(_pages, max_size=3, unique=True).map(tuple)
_seeds = st.lists(_pages, min_size=1, max_size=2, unique=True)
_limits = st.fixed_dictionaries({"open_requests": st.integers(1, 5), "min_gap": st.sampled_from([0.0, 0.5, 30.0])})
_verbs = st.sampled_from([verb for verb in control.VERBS if verb != "delete"])
_troubles = st.sampled_from([{"interruptions": 1}, {"interruptions": 3}, {"fails": "BROKEN"}])
# Actions of operators and nodes, by name, for one of two jobs or nodes. A history draws at most 12 actions after each
# event.
_ACTIONS = {
    "start a run": lambda crawls, which: crawls.request_transition("start", which),
    "make a pass": lambda crawls, which: crawls.cluster.managers[which].work(),
    "perform duties with the groups of the last pass": lambda crawls, which: crawls.cluster.managers[which].perform(),
    "take": lambda crawls, which: crawls.cluster.workers[which].take(),
    "take 2 documents": lambda crawls, which: crawls.cluster.workers[which].take(2),
    "take with a lost answer": lambda crawls, which: crawls.cluster.workers[which].take_with_lost_answer(),
    "process": lambda crawls, which: crawls.cluster.workers[which].process(),
    "process 2 documents": lambda crawls, which: crawls.cluster.workers[which].process(2),
    "flush": lambda crawls, which: crawls.cluster.workers[which].write(),
    "release": lambda crawls, which: crawls.cluster.workers[which].give_back(),
    "all nodes work": lambda crawls, _which: crawls.cluster.work(),
}
_actions = st.lists(st.sampled_from([*itertools.product(_ACTIONS, (0, 1))]), max_size=12)


@dataclass(frozen=True)
class Page:
    """
    A page as the oracle knows it. A page without a text is not
    indexed. A page with `carries` passes its name to all its links.
    """

    text: str | None
    links: tuple[str, ...]
    carries: bool = False


@dataclass
class ExpectedJob:
    """A job as the oracle sees it: its first pages, its hop limit, and its outputs."""

    id: int
    seeds: list[str]
    most_hops: int | None
    outputs: list[int]

    def reached(self, site):
        """Return the pages of a site that the job finds, including links to pages that do not exist."""
        found, border, hops = set(self.seeds), set(self.seeds), 0
        while border and (self.most_hops is None or hops < self.most_hops):
            border = {link for name in border & site.keys() for link in site[name].links} - found
            found, hops = found | border, hops + 1
        return found

    def index(self, site):
        """Return the expected content of the job's outputs: page → (text, carry-down data)."""
        read = self.reached(site) & site.keys()
        carried = {name: sorted(by for by in read if site[by].carries and name in site[by].links) for name in read}
        return {
            name: (site[name].text, json.dumps({"by": by}) if by else "")
            for name, by in carried.items()
            if site[name].text
        }


class Crawls(RuleBasedStateMachine):
    """Two jobs with a common output, over one site. The second job also has another output."""

    connection = None
    directories = None

    # --- Start -----------------------------------------------------------------------------------

    @initialize(
        links=st.lists(_links, min_size=len(PAGES), max_size=len(PAGES)),
        model=st.sampled_from([Model.ALL, Model.CHAINED_ADD]),
        most_hops=st.sampled_from([None, 1, 2]),
    )
    def begin(self, links, model, most_hops):
        empty_the_tables(self.connection)
        self.world = World(next(self.directories))
        self.numbers = itertools.count(1)
        self.site = {}
        # Pages that were absent or had no text at some time. They may leave an output at any moment.
        self.fleeting = set()
        # Pages that failed at some time.
        self.weak = set()
        for name, targets in zip(PAGES, links, strict=True):
            self._put(name, Page("once", targets))
        self.cluster = SteppedCluster(self.connection)
        one, two = (OutputConnection.objects.create(name=name, connector="search") for name in ("one", "two"))
        self.file = make_output(self.world.directory / "out.jsonl")
        self.jobs = [
            self._make_job(["a"], most_hops, outputs=[one], model=Model.ALL),
            self._make_job(["b"], None, outputs=[one, two, self.file], model=model),
        ]
        self.policies = [make_policy(), make_policy()]
        self.places = {}
        self.indexed = set()
        self.was_removing = False
        for which in range(len(self.jobs)):
            assert self.request_transition("start", which)

    # --- Events ----------------------------------------------------------------------------------

    @rule(name=_pages, text=_texts, links=_links, carries=st.booleans(), then=_actions)
    def a_page_is_written(self, name, text, links, carries, then):
        if text is None:
            self.fleeting.add(name)
        self._put(name, Page(text, links, carries))
        self._perform(then)

    @rule(name=_pages, then=_actions)
    def a_page_is_deleted(self, name, then):
        if self.site.pop(name, None):
            self.fleeting.add(name)
            self.world.remove(name)
        self._perform(then)

    @rule(name=_pages, trouble=_troubles, then=_actions)
    def a_page_fails_or_is_interrupted(self, name, trouble, then):
        if name in self.site:
            self.weak.add(name)
            self._put(name, self.site[name], **trouble)
        self._perform(then)

    @rule(which=_which, verb=_verbs, then=_actions)
    def an_operator_requests_a_transition(self, which, verb, then):
        self.request_transition(verb, which)
        self._perform(then)

    @rule(which=_which, verb=st.sampled_from(["start", "start-minimal"]), then=_actions)
    def a_job_is_started(self, which, verb, then):
        self.an_operator_requests_a_transition(which, verb, then)

    @rule(which=_which, seeds=_seeds, then=_actions)
    def the_seeds_are_edited(self, which, seeds, then):
        if self._edit(which, seeds=[SeedWanted(tuple(url_of(name) for name in seeds))]):
            self.jobs[which].seeds = seeds
        self._perform(then)

    @rule(which=_which, then=_actions)
    def the_specification_is_edited_before_a_run(self, which, then):
        self._edit(which, specification={"edition": str(next(self.numbers))})
        self.an_operator_requests_a_transition(which, "start", then)

    @rule(which=_which, has_one=st.booleans(), then=_actions)
    def the_policy_of_a_seed_is_changed(self, which, has_one, then):
        urls = tuple(url_of(name) for name in self.jobs[which].seeds)
        self._edit(which, seeds=[SeedWanted(urls, self.policies[which] if has_one else None)])
        self._perform(then)

    @rule(which=_which, limits=_limits, then=_actions)
    def a_policy_is_edited(self, which, limits, then):
        for name, value in limits.items():
            setattr(self.policies[which], name, value)
        self.policies[which].save()
        self._perform(then)

    @rule(which=_which, then=_actions)
    def a_group_is_moved(self, which, then):
        group = ThrottleGroup.objects.order_by("pk")[which : which + 1].first()
        if group is not None:
            self._request_move(group)
        self._perform(then)

    @rule(then=_actions)
    def the_second_job_is_deleted(self, then):
        self.request_transition("delete", 1)
        self._perform(then)

    @rule(which=_which, then=_actions)
    def workers_restore_removed_documents(self, which, then):
        with contextlib.suppress(Unknown, Refused):
            perform_restoration(restoring.restore(self.jobs[which].id, made_by="a test", now=self.cluster.clock.at))
        self._perform(then)

    @rule(then=_actions)
    def the_restoration_of_the_second_job_is_performed(self, then):
        with contextlib.suppress(Refused):
            perform_restoration(restoring.restore_deleted(self.jobs[1].id, made_by="a test", now=self.cluster.clock.at))
        self._perform(then)

    @rule(amount=st.sampled_from([0.2, 2, 60]), then=_actions)
    def time_passes(self, amount, then):
        self.cluster.let_pass(amount)
        self._perform(then)

    @rule(which=_which, then=_actions)
    def a_worker_dies(self, which, then):
        self.cluster.fail_worker(self.cluster.workers[which])
        self._perform(then)

    @rule(which=_which, then=_actions)
    def a_worker_dies_after_its_flush(self, which, then):
        self.cluster.workers[which].flush_with_lost_answer()
        self.a_worker_dies(which, then)

    @rule(which=_which, then=_actions)
    def a_worker_dies_between_its_outputs_and_its_commit(self, which, then):
        self.cluster.workers[which].flush_without_commit()
        self.a_worker_dies(which, then)

    @rule(which=_which, then=_actions)
    def a_worker_flushes_again_after_a_lost_answer(self, which, then):
        self.cluster.workers[which].flush_with_lost_answer()
        self.cluster.workers[which].write()
        self._perform(then)

    @rule(which=_which, then=_actions)
    def a_manager_dies(self, which, then):
        self.cluster.fail_manager(self.cluster.managers[which])
        self._perform(then)

    @rule(which=_which, then=_actions)
    def a_manager_is_drained(self, which, then):
        self.cluster.drain_manager(self.cluster.managers[which])
        self._perform(then)

    @rule(then=_actions)
    def zombies_try_their_remaining_work(self, then):
        self.cluster.retire_zombies()
        self._perform(then)

    # --- Invariants ------------------------------------------------------------------------------

    @invariant()
    def claims_and_counts_are_sound(self):
        assert self.connection.execute(_UNSOUND_ROWS).fetchall() == []

    @invariant()
    def no_more_is_handed_out_than_a_bin_allows(self):
        """
        Assert that each bin is within its limits. Documents that were handed out before a limit was lowered may exceed
        the limit.
        """
        places = {
            name: (allowed, requests, heads)
            for name, allowed, requests, heads in self.connection.execute(_PLACES).fetchall()
        }
        for name, ((most, heads_allowed), requests, heads) in places.items():
            (most_before, heads_before), requests_before, open_before = self.places.get(name, ((0, 0), 0, 0))
            assert requests <= max(most, most_before, requests_before), (name, places, self.places)
            assert heads <= max(heads_allowed, heads_before, open_before), (name, places, self.places)
        self.places = places

    @invariant()
    def only_the_source_or_a_removing_run_removes(self):
        indexed = {(output, name) for output, held in self._held().items() for name in held}
        phases = [JobPhase.SHUTTING_DOWN, Scan.FULL, JobPhase.DELETING]
        (is_removing,) = self.connection.execute(_IS_REMOVING, phases).fetchone()
        gone = {name for _, name in self.indexed - indexed} - self.fleeting
        assert not gone or self.was_removing or is_removing or self.jobs[0].most_hops is not None
        self.indexed, self.was_removing = indexed, is_removing

    # --- End -------------------------------------------------------------------------------------

    def teardown(self):
        # After a failure, the final run is skipped: a second failure would hide the first.
        if sys.exc_info()[0] is None:
            self._check_undisturbed_runs()

    def _check_undisturbed_runs(self):
        for name, page in self.site.items():
            self._put(name, page)
        self.cluster.retire_zombies()
        for which in range(len(self.jobs)):
            self.request_transition("resume", which)
        self._work_until_all_jobs_are_inactive()
        self.jobs = [job for job in self.jobs if Job.objects.filter(pk=job.id).exists()]
        for which in range(len(self.jobs)):
            assert self.request_transition("reset-seeding", which)
            assert self.request_transition("start", which)
        self._work_until_all_jobs_are_inactive()

        assert set(Job.objects.values_list("run_end", flat=True)) == {RunEnd.FINISHED}
        self._assert_outputs_are_as_expected()

        # Minimal runs, and runs in which pages fail, remove nothing.
        for name in self.weak & self.site.keys():
            self._put(name, self.site[name], fails="BROKEN")
        for which, verb in enumerate(["start", "start-minimal"][: len(self.jobs)]):
            assert self.request_transition(verb, which)
        self._work_until_all_jobs_are_inactive()

        self._assert_outputs_are_as_expected()

    # --- Helpers ---------------------------------------------------------------------------------

    def _put(self, name, page, **trouble):
        self.site[name] = page
        carry = {link: {"by": [name]} for link in page.links} if page.carries else {}
        self.world.put(name, text=page.text, links=list(page.links), carry=carry, **trouble)

    def _make_job(self, seeds, most_hops, *, outputs, model):
        hop_limits = {} if most_hops is None else {"link": most_hops}
        name = f"job {next(self.numbers)}"
        job = self.world.make_job(name, seeds=seeds, model=model, outputs=outputs, hop_limits=hop_limits)
        return ExpectedJob(job.pk, seeds, most_hops, [output.pk for output in outputs])

    def _edit(self, which, **change):
        try:
            editing.change_job(self.jobs[which].id, made_by="a test", now=self.cluster.clock.at, **change)
        except (Invalid, Unknown):
            return False
        return True

    def request_transition(self, verb, which):
        """Request a transition of a job. Return False if it was refused."""
        try:
            control.VERBS[verb].perform(self.jobs[which].id, made_by="a test", now=self.cluster.clock.at)
        except (TransitionRefused, Unknown):
            return False
        return True

    def _request_move(self, group):
        """Request a move of the group as `cluster.move_group` does, without the wait for an answer."""
        others = [manager for manager in self.cluster.managers if manager.identity.id != group.owner_id]
        # A second request for the same move is ignored.
        with contextlib.suppress(IntegrityError):
            ClusterRequest.objects.create(
                kind=ClusterRequest.Kind.MOVE,
                item=group.pk,
                node=others[0].identity.id,
                asked_by="a test",
                asked_at=self.cluster.clock.at,
            )

    def _perform(self, acts):
        for name, which in acts:
            _ACTIONS[name](self, which)
            self._check()

    def _check(self):
        self.claims_and_counts_are_sound()
        self.no_more_is_handed_out_than_a_bin_allows()
        self.only_the_source_or_a_removing_run_removes()

    def _work_until_all_jobs_are_inactive(self):
        for _ in range(_MOST_ROUNDS):
            if not Job.objects.exclude(phase=JobPhase.INACTIVE).exists():
                return
            self.cluster.work()
            self._check()
        jobs = [(job.name, job.manifoldcf_status, job.reason) for job in Job.objects.all()]
        pytest.fail(f"jobs are still active: {jobs} {self.connection.execute(_QUEUE).fetchall()}")

    def _assert_outputs_are_as_expected(self):
        for what, query in LEFT_OVER.items():
            assert self.connection.execute(query).fetchall() == [], what
        held = self._held()
        # Jobs that write to one output may make different content of
        # a page. The recorded version says which content is expected.
        made = {output: {} for output in held}
        for job in self.jobs:
            for name, content in job.index(self.site).items():
                for output in job.outputs:
                    made[output].setdefault(name, {})[self._version(job, *content)] = content
        assert {output: pages.keys() for output, pages in held.items()} == {
            output: pages.keys() for output, pages in made.items()
        }
        versions = self._versions()
        assert versions.keys() == {(output, name) for output, pages in held.items() for name in pages}
        for (output, name), version in versions.items():
            assert made[output][name].get(version) == held[output][name], (output, name, version)

    def _held(self):
        """Return the content of each output: {output: {page: (text, carry-down data)}}."""
        held = {output: {} for (output,) in self.connection.execute(_OUTPUTS).fetchall()}
        for output, name, *content in self.connection.execute(_HELD).fetchall():
            held[output][name] = tuple(content)
        with contextlib.suppress(FileNotFoundError):
            for line in map(json.loads, Path(self.file.configuration["path"]).read_text().splitlines()):
                # A later line for an address replaces the earlier ones.
                held[self.file.pk].pop(name_of(line["url"]), None)
                if line["action"] == "add":
                    held[self.file.pk][name_of(line["url"])] = (line["text"], line["description"])
        return held

    def _version(self, job, text, carried):
        """Return the specification version of the job, and the version that its source gives the page."""
        return str(Job.objects.get(pk=job.id).specification_version), text + carried

    def _versions(self):
        """Return the recorded version of each (output, page), without the digest of its carry-down data."""
        pages = {hash_of(url_of(name)): name for name in PAGES}
        versions = {}
        for output, document, version in self.connection.execute(_RECORDED).fetchall():
            circumstances, _, of_source = version.partition(":")
            versions[output, pages[document.hex]] = (circumstances.partition("+")[0], of_source)
        return versions


# Queries for rows that violate an invariant. At no moment may they return a row.
UNSOUND = {
    "claimed without an offered or taken batch": """
        SELECT item.identifier, item.stage, batch.state
          FROM jobs_queueitem AS item LEFT JOIN jobs_batch AS batch ON batch.id = item.batch_id
         WHERE item.stage IN (1, 3, 4) AND batch.state IS DISTINCT FROM 'available' AND batch.state IS DISTINCT FROM 'sent'
        """,
    "claimed in two jobs at once": """
        SELECT hash FROM jobs_queueitem WHERE stage IN (1, 3, 4) GROUP BY hash HAVING count(*) > 1
        """,
    "counted differently from its rows": """
        SELECT job_id, lane_id, run_no, stage, outcome, code, sum(amount)
          FROM (SELECT job_id, lane_id, run_no, stage, outcome, code, amount FROM jobs_counter WHERE measure = 'stage'
                 UNION ALL
                SELECT job_id, lane_id, run_no, stage, outcome, code, amount FROM jobs_counterdelta WHERE measure = 'stage'
                 UNION ALL
                SELECT job_id, lane_id, run_no, stage, CASE WHEN stage = 2 THEN outcome ELSE 0 END,
                       CASE WHEN stage = 2 THEN result_code ELSE '' END, -1 FROM jobs_queueitem) AS moved
         GROUP BY job_id, lane_id, run_no, stage, outcome, code HAVING sum(amount) <> 0
        """,
    "counts of a bin that differ from its turns": """
        SELECT bin.bin_id, bin.open_turns, bin.open_requests, count(turn.id), sum(turn.requests)
          FROM jobs_binstate AS bin LEFT JOIN jobs_turn AS turn ON turn.bin_id = bin.bin_id AND turn.closed_at IS NULL
         GROUP BY bin.bin_id, bin.version HAVING (bin.open_turns, bin.open_requests) <> (count(turn.id), coalesce(sum(turn.requests), 0))
        """,
    "asleep with a document to hand out": """
        SELECT lane.id, item.identifier
          FROM jobs_lane AS lane JOIN jobs_lanestate AS state ON state.lane_id = lane.id
          JOIN jobs_seed AS seed ON seed.id = lane.seed_id
          JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
          JOIN jobs_queueitem AS item ON item.lane_id = lane.id AND item.run_no = job.run_no AND item.stage = 0
         WHERE state.ready_at IS NULL
           -- If a worker died after a flush, the main manager wakes the lanes that the flush filled.
           AND NOT EXISTS (SELECT FROM jobs_batch AS batch JOIN nodes_node AS node ON node.id = batch.worker_id
                            WHERE batch.state = 'sent' AND node.status = 'failed')
        """,
}
# All queries are one statement, because this check runs after each action.
_UNSOUND_ROWS = " UNION ALL ".join(
    f"SELECT '{what}', row_to_json(found)::text FROM ({query}) AS found" for what, query in UNSOUND.items()
)
# Queries that must return no row once all work has ended.
LEFT_OVER = {
    "claimed": "SELECT identifier FROM jobs_queueitem WHERE stage IN (1, 3, 4)",
    "offered or taken": "SELECT id, state FROM jobs_batch WHERE state IN ('available', 'sent')",
    "open in a bin": "SELECT bin_id FROM jobs_binstate WHERE (open_turns, open_requests) <> (0, 0)",
    "not ended": """
        SELECT item.identifier FROM jobs_queueitem AS item LEFT JOIN jobs_job AS job ON job.id = item.job_id
         WHERE job.id IS NULL OR item.stage NOT IN (2, 5) OR (item.run_no <> job.run_no AND job.scan <> 'changes')
        """,
}
# Query that returns for each bin two limits, then the two present numbers: open requests, and open turns without a
# predecessor. A bin with a gap may have one such turn.
_PLACES = """
SELECT bin.name, ARRAY[lim.requests, CASE WHEN lim.gap > 0 THEN 1 ELSE lim.requests END], state.open_requests,
       coalesce(open.heads, 0)
  FROM jobs_bin AS bin JOIN jobs_binstate AS state ON state.bin_id = bin.id
 CROSS JOIN LATERAL (
       SELECT coalesce(min(policy.open_requests), bin.usual_requests) AS requests,
              coalesce(max(policy.min_gap), bin.usual_gap) AS gap
         FROM jobs_binlimit AS binlimit JOIN jobs_job AS job ON job.id = binlimit.job_id AND job.phase <> 'inactive'
         JOIN jobs_throttlepolicy AS policy ON policy.id = binlimit.policy_id
        WHERE binlimit.bin_id = bin.id) AS lim
  LEFT JOIN (
       SELECT turn.bin_id, count(*) FILTER (WHERE first.id IS NULL) AS heads
         FROM jobs_turn AS turn LEFT JOIN jobs_turn AS first ON first.id = turn.follows_id AND first.closed_at IS NULL
        WHERE turn.closed_at IS NULL GROUP BY turn.bin_id) AS open ON open.bin_id = bin.id
"""
_IS_REMOVING = "SELECT EXISTS (SELECT FROM jobs_job WHERE (phase = %s AND scan = %s) OR phase = %s)"
_OUTPUTS = "SELECT id FROM jobs_outputconnection"
_RECORDED = "SELECT output_id, hash, version FROM jobs_indexeddocument"
_HELD = "SELECT output_id, title, text, description FROM jobs_searchdocument"
_QUEUE = """
SELECT item.job_id, item.identifier, item.stage, item.run_no, item.seq, item.check_time, lane.ready_at, batch.id, batch.state,
       batch.kind
  FROM jobs_queueitem AS item JOIN jobs_lanestate AS lane ON lane.lane_id = item.lane_id
  LEFT JOIN jobs_batch AS batch ON batch.id = item.batch_id
"""


def empty_the_tables(connection):
    """Delete the rows of an earlier history. This is faster than TRUNCATE."""
    tables = connection.execute(
        "SELECT quote_ident(relname) FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        " AND relnamespace = 'public'::regnamespace AND relname ~ '^(jobs|nodes)_'"
    ).fetchall()
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        for (table,) in tables:
            connection.execute(f"DELETE FROM {table}")


# The test takes most of a minute on a quiet machine, so a busy one may need more than the usual limit.
@pytest.mark.timeout(0 if HISTORIES else 1200)
def test_random_histories_end_as_the_oracle_predicts(connection, world, tmp_path):
    directories = (tmp_path / str(number) for number in itertools.count())

    run_state_machine_as_test(
        type("Histories", (Crawls,), {"connection": connection, "directories": directories}),
        settings=settings(
            max_examples=HISTORIES or 10,
            stateful_step_count=12,
            derandomize=not HISTORIES,
            database=None,
            # A failed history of a dozen steps is readable as it is. A search for a shorter history that fails would
            # take many minutes.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
