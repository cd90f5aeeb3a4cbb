"""
Proves that each checker of the chaos test finds its violation in a bad history, and finds nothing in a good history.
"""

from itertools import count

import pytest

from crawlctl.demo.log import LoggedRequest
from tests.chaos.audit import Write
from tests.chaos.checkers import (
    Fetch,
    Freeze,
    MainLoss,
    Verdict,
    extra,
    fetches,
    lost,
    misfires,
    overlaps,
    pace,
    percentile,
    refused,
    stale_writes,
    takeovers,
)
from tests.chaos.stalls import Stall
from tests.support.tables import each_row

SITE = "http://127.0.0.1:8100"


# --- Sites ---------------------------------------------------------------------------------------


def fetch(path, start, end, agent="one"):
    return Fetch(SITE + path, "127.0.0.1:8100", agent, start, end)


def logged(path, time, agent="one", status=200):
    return LoggedRequest(int(time * 1e9), "127.0.0.1:8100", path, status, 1, "GET", agent)


def test_each_start_of_a_request_is_paired_with_its_end():
    starts = [logged("/a", 1), logged("/b", 2), logged("/a", 3, "two")]
    ends = [logged("/a", 3.5, "two"), logged("/a", 4)]

    assert fetches(starts, ends) == [
        fetch("/a", 1, 4),
        fetch("/b", 2, float("inf")),
        fetch("/a", 3, 3.5, "two"),
    ]


def test_two_concurrent_fetches_of_one_document_are_an_overlap():
    one, two, later = fetch("/a", 1, 2), fetch("/a", 1.5, 1.8, "two"), fetch("/a", 2.1, 2.2)

    assert overlaps([one, two, later, fetch("/b", 1, 2)], []).wrong == [(one, two)]


def test_two_concurrent_fetches_of_robots_txt_are_no_overlap():
    both = [fetch("/robots.txt", 1, 2), fetch("/robots.txt", 1, 2, "two")]

    assert overlaps(both, []).wrong == []


def test_requests_sent_by_a_frozen_process_are_listed_separately():
    one, two = fetch("/a", 1, 9), fetch("/a", 5, 6, "two")

    assert overlaps([one, two], [Freeze("one", 2, 8)]).frozen == [(one, two)]
    assert overlaps([one, two], [Freeze("two", 2, 8), Freeze("one", 6, 8)]).wrong == [(one, two)]


@each_row(("apart", "percent"), [(0.2, 90), (0.18, 100), (0.1, 180)])
def test_starts_are_compared_with_the_minimum_gap_minus_a_tolerance(apart, percent):
    made = [fetch("/a", 1, 1.01), fetch("/b", 2, 2.01), fetch("/c", 2 + apart, 3)]

    assert pace(made, gap=0.2, open_requests=1).percent == pytest.approx(percent)


@each_row(
    ("stall", "percent"),
    [(Stall(1.9, 2.0), 90), (Stall(1.9, 1.99), 90), (Stall(2.05, 2.1), 180), (Stall(1.8, 1.9), 180)],
    ids=["behind it", "shortly behind it", "before the next", "long behind it"],
)
def test_a_start_may_seem_early_after_the_machine_was_frozen(stall, percent):
    made = [fetch("/a", 1, 1.01), fetch("/b", 2, 2.01), fetch("/c", 2.1, 3)]

    assert pace(made, gap=0.2, open_requests=1, stalls=[stall]).percent == pytest.approx(percent)


def test_each_host_of_a_site_is_checked_for_its_own_pace():
    elsewhere = Fetch("http://127.0.0.2:8100/a", "127.0.0.2:8100", "one", 1.01, 1.02)

    assert pace([fetch("/a", 1, 1.01), elsewhere], gap=0.2, open_requests=1).percent == 0


def test_too_many_open_requests_break_the_limit_unless_a_process_is_frozen():
    made = [fetch("/a", 1, 9), fetch("/b", 2, 9), fetch("/c", 3, 9, "two")]

    assert pace(made, gap=0.2, open_requests=2).percent == 150
    assert pace(made, gap=0.2, open_requests=2, freezes=[Freeze("one", 2.5, 8)]).most_open == 2


# --- Outputs -------------------------------------------------------------------------------------


def test_missing_and_surplus_items_are_named():
    assert (lost({"a", "b"}, {"b", "c"}), extra({"a", "b"}, {"b", "c"})) == (["a"], ["c"])


# --- Commits -------------------------------------------------------------------------------------


class History:
    """
    Committed writes, one per transaction, of a cluster with two managers and two workers. `m1` is the main manager.
    """

    def __init__(self):
        self.log = []
        self._moments = count(1)
        for node, kind in (("m1", "manager"), ("m2", "manager"), ("w1", "worker"), ("w2", "worker")):
            self.node(node, node, None, "running", kind=kind)
        self.term("m1", 1)
        self.group("m1", owner="m1", epoch=1)
        self.offer("m1", 7)
        self.batch("w1", 7, "available", "sent", worker="w1")

    def write(self, writer, what, before, after, *, together=False):
        moment = self.log[-1].at if together else float(next(self._moments))
        self.log.append(Write(moment, str(moment), writer, what, before, after))
        return self

    def node(self, writer, node, before, after, *, kind="worker", together=False):
        facts = {"id": node, "name": f"{node}.1", "kind": kind, "scope": "cluster"}
        known = {} if before is None else {**facts, "status": before}
        return self.write(writer, "node", known, {**facts, "status": after}, together=together)

    def term(self, main, term, *, resigned=False):
        facts = {"scope": "cluster", "term": term, "main_id": main, "resigned": resigned}
        return self.write(main, "term", {}, facts)

    def group(self, writer, *, owner, epoch, state="owned", before=None):
        known = {} if before is None else {"owner_id": before[0], "state": before[1]}
        return self.write(writer, "group", known, {"id": 3, "owner_id": owner, "epoch": epoch, "state": state})

    def offer(self, manager, batch):
        facts = {"id": batch, "group_id": 3, "manager_id": manager, "worker_id": None, "state": "available"}
        return self.write(manager, "batch", {}, facts)

    def batch(self, writer, batch, before, after, *, worker=None):
        facts = {"id": batch, "group_id": 3, "manager_id": "m1", "worker_id": worker}
        return self.write(writer, "batch", {**facts, "state": before}, {**facts, "state": after})

    def document(self, writer, before, after=None):
        return self.write(writer, "document", {"batch_id": before}, {"batch_id": after})

    def job(self, writer, before, after):
        return self.write(writer, "job", {"phase": before}, {"phase": after})

    @property
    def stale(self):
        return [(found.fence, found.write.writer) for found in stale_writes(self.log)]


@pytest.fixture
def history():
    return History()


def test_a_history_of_allowed_actions_has_no_stale_write(history):
    history.document("w1", 7).document("m1", None, 8).job("m1.1", "active", "shutting_down")
    history.node("m1", "w1", "running", "failed").batch("m1", 7, "sent", "released", worker="w1").document("m1", 7)
    history.term("m2", 2).node("m2", "m1", "running", "failed", kind="manager", together=True)
    history.group("m2", owner="m2", epoch=2).offer("m2", 9)

    assert history.stale == []


def test_a_failed_node_that_writes_is_found(history):
    history.node("m1", "w1", "running", "failed").document("w1", 7)

    assert history.stale == [("node", "w1")]


def test_a_refused_write_of_a_failed_node_is_no_violation(history):
    history.node("m1", "w1", "running", "failed").write("w1", "refused", {"refused_writes": 0}, {"refused_writes": 2})

    assert (history.stale, refused(history.log)) == ([], 2)


def test_a_former_main_that_acts_is_found(history):
    history.term("m2", 2).job("m1.1", "active", "shutting_down").batch("m1", 7, "sent", "released", worker="w1")
    history.group("m1", owner="m1", epoch=3).node("m1", "w2", "running", "failed")

    assert history.stale == [("term", "m1.1"), ("term", "m1"), ("term", "m1")]


def test_a_decreasing_term_is_found(history):
    history.term("m2", 3).term("m1", 2)

    assert history.stale == [("term", "m1")]


def test_a_former_owner_that_offers_is_found(history):
    history.group("m1", owner="m2", epoch=2).offer("m2", 8).offer("m1", 9)

    assert history.stale == [("group", "m1")]


def test_an_offer_by_an_owner_that_must_release_the_group_is_found(history):
    history.group("m1", owner="m1", epoch=1, state="releasing").offer("m1", 8)

    assert history.stale == [("group", "m1")]


def test_only_the_owner_hands_over_a_group_that_it_must_release(history):
    history.term("m2", 2)
    history.group("m1", owner="m2", epoch=2, before=("m1", "releasing"))
    history.group("m1", owner="m1", epoch=3, before=("m2", "releasing"))

    assert history.stale == [("term", "m1")]


def test_an_outcome_without_a_claim_or_with_a_foreign_claim_is_found(history):
    history.document("w1", 7).document("w1", None).document("w2", 7)

    assert history.stale == [("claim", "w1"), ("claim", "w2")]


def test_a_failed_node_that_becomes_active_again_is_found(history):
    history.node("m1", "w1", "running", "failed")
    history.write("w1", "beat", {}, {"id": "w1", "status": "failed"}).node("w1", "w1", "failed", "running")

    assert history.stale.count(("terminal", "w1")) == 2


# --- Takeovers -----------------------------------------------------------------------------------


def test_a_takeover_is_measured_in_heartbeats_from_kill_to_next_main(history):
    loss = MainLoss("m1", history.log[-1].at + 0.5, "kill")
    history.term("m2", 2)

    assert takeovers(history.log, [loss], beat=0.25) == [(loss, 2.0)]


def test_a_main_without_a_possible_successor_is_awaited(history):
    assert takeovers(history.log, [MainLoss("m1", 99, "kill")], beat=1)[0][1] == float("inf")


def test_percentiles_are_values_that_were_measured():
    assert [percentile(range(1, 21), 95), percentile([4], 95), percentile([], 95)] == [19, 4, 0]


# --- Schedules -----------------------------------------------------------------------------------


def runs(*moments):
    """Return the log of a job that is inactive at first, and alternately begins and ends a run at these moments."""
    phases = ["inactive", "active"]
    return [
        Write(at, str(at), "main", "job", {"id": 7, "phase": phases[n % 2]}, {"id": 7, "phase": phases[1 - n % 2]})
        for n, at in enumerate(moments)
    ]


def test_a_job_that_starts_at_each_opening_of_its_window_is_accepted():
    assert misfires(runs(10.2, 14, 30.9, 40), job=7, openings=[10, 30]) == []


def test_a_start_of_a_job_without_an_opening_of_its_window_is_found():
    assert "nothing had opened" in misfires(runs(10.2, 14, 15, 18), job=7, openings=[10])[0]


def test_an_opening_of_a_window_that_started_no_run_is_found():
    assert "did not start though its window opened at 30.0" in misfires(runs(10.2, 14), job=7, openings=[10, 30])[0]


def test_a_window_that_opens_while_the_job_runs_is_skipped():
    assert misfires(runs(10.2, 34), job=7, openings=[10, 30]) == []


def test_a_late_start_counts_for_all_earlier_openings_of_windows():
    assert misfires(runs(35, 40), job=7, openings=[10, 30]) == []


def test_starts_of_other_jobs_are_ignored():
    assert misfires(runs(10.2, 14), job=8, openings=[]) == []


FINE = {
    "lost": 0,
    "extra": 0,
    "overlap": 0,
    "overlap_frozen": 3,
    "stale_accepted": 0,
    "stale_refused": 5,
    "pace": 97.2,
    "misfires": 0,
    "takeovers": [3.0, 4.0, 5.2],
    "bound": 6,
    "steps_by_hand": 0,
}


def test_a_verdict_prints_its_findings_line_by_line():
    assert Verdict(**FINE).lines == [
        "misfires 0",
        "lost 0",
        "overlap 0",
        "stale accepted 0",
        "stale refused 5",
        "pace max 97 %",
        "takeover beats p95 5.2 max 5.2",
        "steps by hand 0",
    ]


@each_row(
    "wrong",
    [
        {"lost": 1},
        {"misfires": 1},
        {"extra": 1},
        {"overlap": 1},
        {"stale_accepted": 1},
        {"pace": 100.4},
        {"takeovers": [7.0, 7.0, 3.0]},
        {"steps_by_hand": 1},
    ],
)
def test_a_verdict_is_good_only_without_findings(wrong):
    assert Verdict(**FINE).holds
    assert not Verdict(**(FINE | wrong)).holds


def test_one_slow_takeover_does_not_change_the_median():
    assert Verdict(**(FINE | {"takeovers": [9.0]})).holds
