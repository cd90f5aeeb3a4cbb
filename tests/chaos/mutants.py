"""
Mutants: daemons without one of the mechanisms that keep the cluster consistent. The checkers must catch each mutant.

    python -m tests.chaos.mutants [--only NAME]

Each mutant has a schedule that creates the situation for which the mechanism exists. It may freeze a process between a
check and its write (fault F3). The same schedule without the mutation is its control, and must have no finding. The
daemons are mutated as they are imported (tests/chaos/inside), so crawlctl has no code for mutants.
"""

import argparse
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tests.chaos.run import VAR, chaos_server, report
from tests.support.pace.rules import Limits
from tests.support.processes import ROOT, copy_of, make_template, template_database, wait_for
from tests.support.proxy import SYNC

# Timeout of nodes (seconds): longer than in the chaos test, so that a busy machine does not upset a schedule.
_TIMEOUT = 3.0

_FENCED = r"AND \{MAY_WRITE\}\s+FOR KEY SHARE"


@dataclass(frozen=True, slots=True)
class Mutant:
    """
    A mutant. `changes` are patterns in the source of our modules, with their replacements. `caught_by` names the
    finding that must result, and `schedule(trial)` creates the moment.
    """

    name: str
    switched_off: str
    changes: tuple[tuple[str, str], ...]
    caught_by: str
    schedule: Callable[["Trial"], None]


class Trial:
    """One cluster for one try of a schedule, mutated or not."""

    def __init__(self, cluster, mutant, *, is_mutated):
        self.cluster, self._mutant, self._is_mutated = cluster, mutant, is_mutated
        # Findings of a schedule that has its own checkers.
        self.found = []

    @property
    def orders(self):
        """Return the content of CRAWLCTL_CHAOS for each node."""
        return {"mutant": self._mutant.changes} if self._is_mutated else {}

    def start(self, *, managers=1, workers=1, stops=None, roles_apart=False):
        """
        Start nodes. `stops` names for each kind of node a function at which it freezes on request.

        With `roles_apart`, each node has its own database role and cannot end the sessions of others. Then only the
        fences protect the database.
        """
        cluster = self.cluster
        cluster.at_once = 0
        cluster.add("manager", managers)
        cluster.add("worker", workers)
        for node in cluster.nodes:
            node.orders.update(self.orders)
            point = (stops or {}).get(node.kind)
            if point:
                node.orders["stops"] = {point: str(self._file(node))}
            if roles_apart:
                node.user = self._make_role(node)
            node.environment["CRAWLCTL_NODE_TIMEOUT"] = str(_TIMEOUT)
            node.start()
        self.supervise_until(cluster.is_whole, saying="the cluster is whole")

    def crawl(self, **site):
        """Start a crawl, and wait until it is in progress."""
        crawl = self.cluster.begin_crawl(slow="1000000:1", **site)
        self.supervise_until(
            lambda: crawl.site.count_requests() > 5 and self.cluster.is_whole(), saying="the crawl is in progress"
        )
        return crawl

    def supervise_until(self, condition, *, saying):
        """Wait for the condition. Restart processes that end meanwhile because the machine is busy."""

        def check():
            for node in self.cluster.nodes:
                node.restart_if_ended()
            return condition()

        wait_for(check, saying=saying)

    def freeze_at_stop(self, node):
        """Freeze the node the next time that it reaches its stop."""
        self._file(node).touch()
        self.wait_for_stop(node)

    def wait_for_stop(self, node):
        wait_for(node.is_frozen, saying=f"{node.name} stops")
        node.note_frozen()

    def wait_for_status(self, node, status):
        wait_for(lambda: self.status_of(node) == status, saying=f"{node.name} is {status}")

    def status_of(self, node):
        return next((row.status for row in self.rows("SELECT status FROM nodes_node WHERE name = %s", node.name)), None)

    def outcomes_of(self, node):
        """Return the number of outcomes that the node has written, in all its starts."""
        (row,) = self.rows(
            """
            SELECT count(*) FROM chaos_audit JOIN nodes_node AS node ON node.id::text = writer
             WHERE what = 'document' AND node.name LIKE %s
            """,
            f"{node.place}.%",
        )
        return row.count

    def rows(self, query, *values):
        return self.cluster.rows(query, *values)

    def do(self, query, *values):
        with psycopg.connect(self.cluster.database.dsn, autocommit=True) as connection:
            connection.execute(query, values)

    def _file(self, node):
        return self.cluster.directory / f"{node.place}.stop"

    def _make_role(self, node):
        name = f"chaos_{self.cluster.directory.name}_{node.place}".replace("-", "_")
        with psycopg.connect(self.cluster.database.dsn, autocommit=True) as connection:
            role = sql.Identifier(name)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
            for things in ("TABLES", "SEQUENCES"):
                connection.execute(sql.SQL(f"GRANT ALL ON ALL {things} IN SCHEMA public TO {{}}").format(role))
        return name


# --- Schedules -----------------------------------------------------------------------------------


def _a_failed_worker_flushes(trial):
    """Freeze a worker before a flush until it is failed. Wake it before its documents are released."""
    trial.start(stops={"worker": "jobs.queue.flushing.flush:flush", "manager": "jobs.queue.release:_lose"})
    trial.crawl(gap=0, open_requests=4)
    (worker,), (main,) = trial.cluster.of_kind("worker"), trial.cluster.of_kind("manager")
    trial.freeze_at_stop(worker)
    trial.freeze_at_stop(main)
    before = trial.outcomes_of(worker)
    worker.thaw()
    wait_for(lambda: not worker.is_up or trial.outcomes_of(worker) > before, saying="the failed worker has tried")
    main.thaw()


def _a_take_outlives_its_worker(trial):
    """
    Hold a worker's take behind its fence and kill the worker. The take commits after the main manager has marked the
    worker as failed.
    """
    trial.start(roles_apart=True)
    trial.do(
        """
        CREATE TABLE chaos_hold (); GRANT ALL ON chaos_hold TO PUBLIC;
        CREATE FUNCTION chaos_hold() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            WHILE EXISTS (SELECT FROM chaos_hold) LOOP PERFORM pg_sleep(0.02); END LOOP;
            RETURN NULL;
        END $$;
        CREATE TRIGGER chaos_hold AFTER UPDATE ON jobs_batch
           FOR EACH ROW WHEN (NEW.state = 'sent') EXECUTE FUNCTION chaos_hold();
        """
    )
    trial.crawl(gap=0, open_requests=4)
    trial.do("INSERT INTO chaos_hold DEFAULT VALUES")
    held_up = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    wait_for(lambda: trial.rows(held_up), saying="a take is held up")
    (worker,) = trial.cluster.of_kind("worker")
    worker.kill(back_in=1000)
    # Wait until the worker is marked as failed, or until its own limits end the statement.
    deadline = time.monotonic() + 2.2 * _TIMEOUT
    while trial.status_of(worker) != "failed" and time.monotonic() < deadline:
        time.sleep(0.02)
    trial.do("DELETE FROM chaos_hold")
    trial.wait_for_status(worker, "failed")


def _a_former_main_releases(trial):
    """
    Freeze a main manager before it releases a lost worker's documents. Freeze its successor at the same place, too. Then let the
    first one continue.
    """
    trial.start(managers=2, workers=2, stops={"manager": "jobs.queue.release:_lose"}, roles_apart=True)
    trial.crawl(gap=0, open_requests=4)
    old, _ = trial.cluster.main()
    (new,) = [node for node in trial.cluster.of_kind("manager") if node is not old]
    for node in (old, new):
        trial._file(node).touch()
    _busiest(trial).kill(back_in=1000)
    trial.wait_for_stop(old)
    trial.wait_for_stop(new)
    old.thaw()
    time.sleep(0.4)
    wait_for(
        lambda: trial.rows("SELECT FROM nodes_node WHERE name = %s AND refused_writes > 0", old.name) or not old.is_up,
        saying="the former main manager has tried",
    )
    new.thaw()


def _a_former_owner_stuffs(trial):
    """Move groups between two managers while the former owner is about to stuff them."""
    trial.start(managers=2, workers=1, stops={"manager": "jobs.duties.stuff:stuff_groups"})
    trial.crawl(gap=0, open_requests=8, pages=3000)
    for _ in range(8):
        (group,) = trial.rows(
            "SELECT held.id, node.name FROM jobs_throttlegroup AS held JOIN nodes_node AS node ON node.id = held.owner_id"
        )
        owner = next(node for node in trial.cluster.nodes if node.name == group.name)
        other = next(node for node in trial.cluster.of_kind("manager") if node is not owner)
        trial.freeze_at_stop(owner)
        trial.do(
            "UPDATE jobs_throttlegroup SET epoch = epoch + 1, owner_id = (SELECT id FROM nodes_node WHERE name = %s)",
            other.name,
        )
        owner.thaw()
        time.sleep(0.5)


def _flushes_are_repeated(trial):
    """Drop the answers to commits, so that a worker cannot know that they succeeded."""
    trial.start()
    trial.crawl(gap=0, open_requests=4, pages=3000)
    (worker,) = trial.cluster.of_kind("worker")
    # A dropped answer may be that of any statement. A dozen of them include some answers to flushes.
    for _ in range(12):
        before = trial.outcomes_of(worker)
        worker.proxy.lose_answer(SYNC).result(20)
        trial.supervise_until(lambda before=before: trial.outcomes_of(worker) > before, saying="it goes on")


def _a_job_crawls(trial):
    trial.start()
    crawl = trial.crawl(gap=0.3, open_requests=1)
    wait_for(lambda: crawl.site.count_requests() > 40, saying="some was crawled")


def _a_failed_worker_beats_again(trial):
    """Freeze a worker until it is failed, then let it continue."""
    trial.start()
    if trial._is_mutated:
        for (name,) in trial.rows(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = 'nodes_node'::regclass AND NOT tgisinternal AND tgname NOT LIKE 'chaos%%'"
        ):
            trial.do(f"DROP TRIGGER {name} ON nodes_node")
    trial.crawl(gap=0.2, open_requests=2)
    (worker,) = trial.cluster.of_kind("worker")
    worker.freeze()
    trial.wait_for_status(worker, "failed")
    worker.thaw()
    wait_for(lambda: not worker.is_up or trial.status_of(worker) == "running", saying="it has seen that it is failed")


def _a_worker_is_cut_off(trial):
    """Cut a worker that serves a host off from the database in the middle of a turn."""
    trial.start(workers=2)
    crawl = trial.crawl(gap=0.2, open_requests=2, hosts=1)
    time.sleep(2)
    (last,) = [request.agent for request in crawl.site.requests()][-1:]
    worker = next(node for node in trial.cluster.nodes if node.name == last)
    worker.proxy.cut()
    trial.wait_for_status(worker, "failed")
    seen = crawl.site.count_requests()
    wait_for(lambda: crawl.site.count_requests() > seen + 20, saying="the other one goes on")
    worker.proxy.heal()


# --- Schedules of pace: hosts shared by two jobs of two policies ---------------------------------


def _hosts_are_shared(trial, *, inject_faults, **facts):
    """Crawl the same hosts with two jobs of two policies, and inject a fault."""
    from tests.support.pace.scenario import Scenario

    with Scenario(trial.cluster, orders=trial.orders, **facts) as scenario:
        inject_faults(scenario)
        trial.found += ["pace"] * len(scenario.broken())


def _pages_take_longer_than_the_gap(trial):
    _hosts_are_shared(
        trial,
        inject_faults=lambda scenario: scenario.go_on(40),
        strict=Limits(gap=0.1, open_requests=1),
        latency_ms=250,
    )


def _hosts_change_their_worker(trial):
    """Stop each worker that serves a host, so that other workers take over immediately."""

    def inject_fault(scenario):
        for _ in range(4):
            scenario.asker().stop()
            scenario.go_on(4)

    _hosts_are_shared(trial, inject_faults=inject_fault, strict=Limits(gap=1.5, open_requests=1))


def _groups_are_moved(trial):
    def inject_fault(scenario):
        for _ in range(3):
            scenario.move_groups()
            scenario.go_on(10)

    _hosts_are_shared(trial, inject_faults=inject_fault)


def _pages_are_large(trial):
    strict = Limits(gap=0.02, open_requests=2, bytes_per_second=60_000)
    _hosts_are_shared(trial, inject_faults=lambda scenario: scenario.go_on(60), strict=strict)


def _a_cap_is_lower_than_all_limits(trial):
    _hosts_are_shared(trial, inject_faults=lambda scenario: scenario.go_on(25), cap=Limits(starts=(3, 1.0)))


def _busiest(trial):
    (row,) = trial.rows(
        """
        SELECT node.name FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id
          JOIN nodes_node AS node ON node.id = batch.worker_id
         WHERE batch.state = 'sent' GROUP BY node.name ORDER BY count(*) DESC LIMIT 1
        """
    )
    return next(node for node in trial.cluster.nodes if node.name == row.name)


# --- Mutants -------------------------------------------------------------------------------------

MUTANTS = (
    Mutant("node-fence", "the node fence", ((_FENCED, ""),), "node", _a_failed_worker_flushes),
    Mutant("node-lock", "the lock of the node fence", ((r"FOR KEY SHARE", ""),), "node", _a_take_outlives_its_worker),
    Mutant(
        "term-check",
        "the term check",
        ((r"AND term = %\(term\)s AND main_id = %\(main_id\)s AND NOT resigned\s+AND EXISTS .*\s+FOR SHARE", ""),),
        "term",
        _a_former_main_releases,
    ),
    Mutant(
        "group-fence",
        "the group fence",
        ((r"AND owner_id = \(SELECT id FROM node\) AND epoch = %\(epoch\)s AND state = 'owned'\s+FOR SHARE", ""),),
        "group",
        _a_former_owner_stuffs,
    ),
    Mutant(
        "claim-check",
        "the claim check",
        ((r"return row is not None and row\.batch_id == result\.claimed\.batch_id", "return row is not None"),),
        "claim",
        _flushes_are_repeated,
    ),
    Mutant("pace", "the pace", ((r"self\.last_start \+ self\.gap", "self.last_start"),), "pace", _a_job_crawls),
    Mutant(
        "terminal-rule",
        "that failed is failed for good",
        (
            (
                r"SET heartbeat_at = clock_timestamp\(\), (.*)\s+WHERE id = %\(node_id\)s AND status IN \(.*\)",
                r"SET heartbeat_at = clock_timestamp(), stopped_at = NULL, status = 'running', \1 WHERE id = %(node_id)s",
            ),
        ),
        "terminal",
        _a_failed_worker_beats_again,
    ),
    Mutant(
        "trust-window",
        "the trust window",
        (
            (r"return self\.age\(\) < self\._timeout \* 2 / 3", "return True"),
            (r"return self\.age\(\) >= self\._timeout \* 5 / 6", "return False"),
        ),
        "pace",
        _a_worker_is_cut_off,
    ),
    Mutant(
        "one-turn",
        "that a limited bin has one open turn",
        ((r"if not seen\.turns:(\s+)return \[_Place\(documents, most\)\]", r"if len(seen.turns) < 2:\1return [_Place(documents, most)]"),),
        "pace",
        _pages_take_longer_than_the_gap,
    ),
    Mutant(
        "gap-of-the-last-turn",
        "the gap that a closed turn leaves to the next",
        ((r"last_start_at = greatest\(state\.last_start_at, clock_timestamp\(\) \+ make_interval\(secs => held\.started\)\)", "last_start_at = state.last_start_at"),),
        "pace",
        _hosts_change_their_worker,
    ),
    Mutant(
        "one-bin",
        "that a host is one bin for all policies",
        ((r'"namespace": bins\.namespace', '"namespace": f"{bins.namespace}{pairs[0][0]}"'),),
        "pace",
        _groups_are_moved,
    ),
    Mutant(
        "bytes",
        "the count of bytes",
        (
            (r"self\._paid_until = max\(self\._paid_until, now - early\) \+ .*", "self._paid_until = now"),
            (r"self\._paid_until \+= .*", "pass"),
            (r"self\._in_window \+= size", "pass"),
        ),
        "pace",
        _pages_are_large,
    ),
    Mutant(
        "parents",
        "the limits of parents",
        ((r"\[\] if seen\.limits\.denied else above", "[]"),),
        "pace",
        _a_cap_is_lower_than_all_limits,
    ),
)  # fmt: skip


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description="See that the checkers catch.")
    parser.add_argument("--only", choices=[mutant.name for mutant in MUTANTS], action="append", help="try this one")
    options = parser.parse_args(arguments)
    wanted = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    for mutant in wanted:
        check_patterns(mutant)
    with chaos_server(VAR / "mutants") as (server, directory):
        make_template()
        survived = [mutant.name for mutant in wanted if not _is_caught(mutant, server, directory)]
    report(f"{len(wanted) - len(survived)} of {len(wanted)} mutants are caught, and their controls are clean")
    return 1 if survived else 0


def check_patterns(mutant):
    """Assert that each pattern of the mutant exists in our source. A pattern without a match mutates nothing."""
    sources = [path.read_text() for app in ("nodes", "jobs") for path in (ROOT / app).rglob("*.py")]
    for pattern, _ in mutant.changes:
        if not any(re.search(pattern, source) for source in sources):
            raise SystemExit(f"the mutant {mutant.name} matches nothing any more: {pattern}")


def _is_caught(mutant, server, directory):
    """Try the schedule with and without the mutation. Return True if only the mutant is caught."""
    began_at = time.monotonic()
    clean, refused = _findings(mutant, server, directory, is_mutated=False)
    found, _ = _findings(mutant, server, directory, is_mutated=True)
    is_caught = mutant.caught_by in found and not clean
    report(
        f"{'caught  ' if is_caught else 'SURVIVED'} {mutant.name}: without {mutant.switched_off} the checkers find "
        f"{_count_by_name(found) or 'nothing'}; with it {_count_by_name(clean) or 'nothing'}, and {refused} refused "
        f"({time.monotonic() - began_at:.0f} s)"
    )
    return is_caught


def _run_schedule(mutant, trial):
    """Run the schedule. A step that does not happen also counts as a finding."""
    try:
        mutant.schedule(trial)
    except AssertionError as failure:
        return [f"({failure})"]
    return []


def _count_by_name(found):
    return ", ".join(f"{name} {found.count(name)}" for name in sorted(set(found)))


def _findings(mutant, server, directory, *, is_mutated):
    """Return the names of the checkers' findings, and the number of refused writes."""
    from tests.chaos import audit
    from tests.chaos.cluster import Cluster
    from tests.chaos.evidence import Evidence

    place = directory / f"{mutant.name}{'-off' if is_mutated else ''}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with copy_of(template_database()) as database, database.as_django():
        audit.install(database.dsn)
        cluster = Cluster(server, database, place, random.Random(1), lambda _words: None)
        try:
            trial = Trial(cluster, mutant, is_mutated=is_mutated)
            missed = _run_schedule(mutant, trial)
            # Flush the logs of the sites to their files.
            for crawl in cluster.crawls:
                _ = crawl.site.lines
            audit.export(database.dsn, place / "audit.jsonl")
        finally:
            cluster.end()
    evidence = Evidence(cluster)
    verdict = evidence.verdict()
    found = trial.found + [stale.fence for stale in evidence.stale]
    return missed + found + ["overlap"] * verdict.overlap + ["pace"] * (verdict.pace > 100), verdict.stale_refused


if __name__ == "__main__":
    sys.exit(main())
