"""
Proves that any change of the evidence of politeness breaks its chain, and that it is compared with a site's access log.
"""

import json

import pytest

from jobs.evidence import comparing
from jobs.evidence.access_log import BadLog, Line, read_log
from jobs.evidence.chain import Block, ChainBroken, Head, canonical, follow, hash_of, next_block
from jobs.evidence.coverage import Gap, Recorder, advance
from jobs.evidence.files import BadFile, Part, Period, line_of, read
from jobs.evidence.minutes import Report, content_of, moment_of, moment_text
from jobs.loops.worker.host_queue import PacedBin
from jobs.loops.worker.sent_requests import SentRequests
from jobs.throttling.pace import Cadence
from tests.support.tables import each_row

HOST, AGENT = "a.example", "crawlctl/0.1"
BEGIN = int(moment_of("2026-11-29T03:00:00Z"))


def report(minute=0, *, seconds=(0, 10, 20), gap=10.0, **facts):
    counts = {second: list(seconds).count(second) for second in seconds}
    return Report(HOST, BEGIN + 60 * minute, counts, limits=((min(seconds), gap, None),), **facts)


def blocks_of(*reports):
    head, blocks = Head(), []
    for one in reports:
        blocks.append(next_block(head, content_of([one])))
        head = Head(blocks[-1].seq, blocks[-1].hash)
    return blocks


def part_of(blocks):
    return Part(Head(), Head(blocks[-1].seq, blocks[-1].hash) if blocks else Head())


def lines_of(blocks, *, minutes=3, gaps=()):
    of_gaps = [next_block(Head(), gap.content()) for gap in gaps]
    period = Period(HOST, AGENT, BEGIN, BEGIN + 60 * minutes, part_of(blocks), part_of(of_gaps))
    return [period.as_line(), *map(line_of, [*blocks, *of_gaps])]


def log_of(*reports):
    return [
        Line(one.minute + second, 200) for one in reports for second, count in one.seconds.items() for _ in range(count)
    ]


def found_in(log, *reports, tolerance=0.0, gaps=()):
    evidence = read(lines_of(blocks_of(*reports), gaps=gaps), name="file")
    return [one.sentence for one in comparing.differences([evidence], log, tolerance=tolerance)]


THREE = [report(0), report(1), report(2)]


def test_an_exported_chain_can_be_read_and_verified():
    evidence = read(lines_of(blocks_of(*THREE)), name="file")

    assert [content["sent"] for content in evidence.contents] == [[[0, 1], [10, 1], [20, 1]]] * 3
    assert evidence.last.seq == 3


def changed(blocks):
    content = json.loads(blocks[1].content) | {"bytes": 1}
    text = canonical(content)
    return [blocks[0], Block(2, text, hash_of(text)), blocks[2]]


@each_row(
    "tamper",
    [
        changed,
        lambda blocks: [blocks[0], blocks[2]],
        lambda blocks: [blocks[1], blocks[0], blocks[2]],
        lambda blocks: [blocks[0], Block(2, blocks[1].content, "0" * 64), blocks[2]],
        lambda blocks: [*blocks, next_block(Head(3, "f" * 64), content_of([report(2)]))],
    ],
)
def test_a_changed_removed_moved_or_added_block_breaks_the_chain(tamper):
    with pytest.raises(ChainBroken):
        follow(Head(), tamper(blocks_of(*THREE)))


@each_row("text", ["", "no JSON", "[]", '{"format":"other"}'])
def test_a_file_that_is_no_evidence_is_refused(text):
    with pytest.raises(BadFile):
        read([text], name="file")


def test_reports_of_several_workers_add_up_in_each_second():
    content = content_of([report(seconds=(1, 1, 5)), report(seconds=(1, 7), unanswered={7: 1})])

    assert (content["sent"], content["unanswered"]) == ([[1, 3], [5, 1], [7, 1]], [[7, 1]])


def test_an_access_log_with_the_same_requests_agrees():
    assert found_in(log_of(*THREE), *THREE) == []


@each_row("tolerance", [0.0, 2.0])
def test_a_line_that_was_removed_from_the_log_is_named(tolerance):
    log = [line for line in log_of(*THREE) if line.second != BEGIN + 70]

    assert found_in(log, *THREE, tolerance=tolerance) == [
        "At 2026-11-29T03:01:10Z, the evidence has a request that the log lacks."
    ]


@each_row("tolerance", [0.0, 2.0])
def test_a_request_that_the_evidence_lacks_is_named(tolerance):
    log = [*log_of(*THREE), Line(BEGIN + 95, 200)]

    assert found_in(log, *THREE, tolerance=tolerance) == [
        "At 2026-11-29T03:01:35Z, the log has a request that the evidence lacks."
    ]


def test_a_request_may_reach_the_log_within_the_tolerance():
    reports = [report(0, seconds=(0, 59)), report(1, seconds=(30,)), report(2)]
    log = [line._replace(second=BEGIN + 60) if line.second == BEGIN + 59 else line for line in log_of(*reports)]

    assert found_in(log, *reports, tolerance=1.0) == []
    assert len(found_in(log, *reports, tolerance=0.0)) == 2


def test_a_request_without_an_answer_may_be_missing_in_the_log():
    reports = [report(0, unanswered={10: 1}), report(1), report(2)]

    assert found_in([line for line in log_of(*reports) if line.second != BEGIN + 10], *reports) == []
    assert found_in([line for line in log_of(*reports) if line.second != BEGIN + 20], *reports) != []


def test_a_gap_of_the_record_excuses_only_requests_within_the_gap():
    gap = Gap(BEGIN + 60, BEGIN + 120, "A worker ended without its last report.")
    log = log_of(*THREE)

    assert found_in([*log, Line(BEGIN + 95, 200)], *THREE, gaps=[gap]) == []
    assert found_in([*log, Line(BEGIN + 40, 200)], *THREE, gaps=[gap]) != []
    assert found_in([line for line in log if line.second != BEGIN + 70], *THREE, gaps=[gap]) == []


def test_a_file_without_its_last_gap_is_refused():
    lines = lines_of(blocks_of(*THREE), gaps=[Gap(BEGIN, BEGIN + 60, "why")])

    with pytest.raises(ChainBroken):
        read(lines[:-1], name="file")


def test_requests_closer_together_than_the_limit_in_force_are_named():
    crowded = [report(0), report(1), report(2, seconds=(0, 10, 13, 20))]

    (sentence,) = found_in(log_of(*crowded), *crowded)

    assert sentence == (
        "From 2026-11-29T03:02:10Z to 2026-11-29T03:02:13Z, the log has more requests than the limits in force allow."
    )


def test_many_gaps_that_are_each_slightly_too_short_are_named():
    steady = [report(0, seconds=range(0, 60, 2), gap=2.0), report(1), report(2)]
    hasty = [report(0, seconds=range(60), gap=2.0), report(1), report(2)]

    assert found_in(log_of(*steady), *steady) == []
    assert found_in(log_of(*hasty), *hasty) != []


def test_evidence_above_its_own_limit_is_named():
    evidence = read(lines_of(blocks_of(report(0, seconds=(1, 1)))), name="file")

    assert len(comparing.contradictions_in([evidence])) == 1


def refused(*, until):
    at = BEGIN + 20
    refusal = {
        "sent": moment_text(at),
        "at": moment_text(at),
        "code": "429",
        "asked": until - 20.0,
        "until": moment_text(BEGIN + until),
    }
    return [report(0, refusals=[refusal]), report(1, seconds=(45,)), report(2)]


def answered_429(reports):
    return [line._replace(status=429) if line.second == BEGIN + 20 else line for line in log_of(*reports)]


def test_evidence_of_an_obeyed_429_agrees_with_the_log():
    reports = refused(until=105)

    assert found_in(answered_429(reports), *reports, tolerance=2.0) == []


def test_a_request_during_the_wait_that_a_429_asked_for_is_named():
    reports = refused(until=130)

    (sentence,) = found_in(answered_429(reports), *reports, tolerance=2.0)

    assert "the crawler was to wait until 2026-11-29T03:02:10Z" in sentence


def test_a_429_without_a_reaction_is_named():
    log = [line._replace(status=429) if line.second == BEGIN + 80 else line for line in log_of(*THREE)]

    (sentence,) = found_in(log, *THREE)

    assert "the evidence has no reaction to it" in sentence


@each_row("zone, hour", [("+0000", "03"), ("+0200", "05"), ("-0130", "01:30")])
def test_lines_of_both_formats_are_read_in_any_time_zone(zone, hour):
    moment = f"29/Nov/2026:{hour}:00:05" if ":" not in hour else f"29/Nov/2026:{hour}:05"
    common = f'192.0.2.1 - - [{moment} {zone}] "GET /\\"x HTTP/1.1" 200 5'

    lines = [common, f'{common} "-" "{AGENT}"', f'{common} "-" "another"', ""]

    assert list(read_log(lines, agents={AGENT})) == [Line(BEGIN + 5, 200)] * 2


@each_row("line", ["nonsense", '- - - [32/Nov/2026:03:00:00 +0000] "GET / HTTP/1.1" 200 5'])
def test_a_line_in_another_format_is_refused(line):
    with pytest.raises(BadLog, match="Line 1"):
        list(read_log([line], agents={AGENT}))


# --- The minutes for which the record is complete ------------------------------------------------

LATEST = BEGIN + 600
WHY_ENDED, WHY_OFF = "A worker ended without its last report.", "A worker did not report its requests."


def decided(*workers, since=BEGIN, latest=LATEST):
    return advance(since, latest=latest, workers=[Recorder(**worker) for worker in workers])


def worker(**facts):
    return {"started": BEGIN - 1000, "since": BEGIN - 1000} | facts


def test_minutes_that_all_workers_have_reported_are_complete():
    assert decided(worker(complete_until=BEGIN + 250), worker(complete_until=BEGIN + 400)) == (BEGIN + 240, [])


def test_the_last_minutes_of_a_killed_worker_are_a_gap():
    killed = worker(ended=BEGIN + 310, complete_until=BEGIN + 200)

    assert decided(killed) == (LATEST, [Gap(BEGIN + 180, BEGIN + 360, WHY_ENDED)])


def test_a_worker_that_ended_in_order_leaves_no_gap():
    ended = worker(ended=BEGIN + 310, complete_until=BEGIN + 200, reported_all=True)

    assert decided(ended) == (LATEST, [])


@each_row(
    "facts",
    [
        {"started": BEGIN + 70, "since": None, "ended": BEGIN + 110},
        {"started": BEGIN + 70, "since": BEGIN + 110.0, "complete_until": LATEST},
    ],
)
def test_minutes_of_a_worker_that_did_not_record_are_a_gap(facts):
    assert decided(facts) == (LATEST, [Gap(BEGIN + 60, BEGIN + 120, WHY_OFF)])


def test_minutes_are_not_complete_before_each_running_worker_has_reported():
    assert decided({"started": BEGIN + 70, "since": None}) == (BEGIN + 60, [])
    assert decided({"started": BEGIN - 70, "since": None}) == (BEGIN, [])


def test_a_gap_continues_over_two_decisions_about_complete_minutes():
    killed = worker(ended=LATEST + 70, complete_until=LATEST - 60)

    assert decided(killed) == (LATEST, [Gap(LATEST - 60, LATEST, WHY_ENDED)])
    assert decided(killed, since=LATEST, latest=LATEST + 300) == (
        LATEST + 300,
        [Gap(LATEST, LATEST + 120, WHY_ENDED)],
    )


def test_gaps_of_several_workers_do_not_overlap():
    first = worker(ended=BEGIN + 200, complete_until=BEGIN)
    second = worker(ended=BEGIN + 300, complete_until=BEGIN + 60)

    assert decided(first, second) == (
        LATEST,
        [Gap(BEGIN, BEGIN + 240, WHY_ENDED), Gap(BEGIN + 240, BEGIN + 300, WHY_ENDED)],
    )


def test_the_record_begins_when_all_running_workers_record():
    late = worker(since=BEGIN + 90.0, complete_until=LATEST)

    assert decided(worker(since=None), since=None) == (None, [])
    assert decided(late, worker(complete_until=LATEST), since=None) == (
        BEGIN + 120,
        [Gap(0, BEGIN + 120, "The record begins here.")],
    )


def test_evidence_has_a_gap_for_days_on_which_recording_was_off():
    assert decided(since=BEGIN - 86_400) == (LATEST, [Gap(BEGIN - 86_400, LATEST, "The record was off.")])


# --- The counts of a worker ------------------------------------------------------------------------


class SetClock:
    """A clock that a test sets."""

    def __init__(self):
        self.at = float(BEGIN)

    def seconds_at(self, _moment):
        return self.at


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def sent(clock):
    return SentRequests(clock, is_on=True)


def send(sent, *, gap=2.0):
    return sent.count(f"http://{HOST}/page", [PacedBin(1, Cadence(gap=gap)), PacedBin(2)])


def taken(sent, **options):
    """
    Take the worker's report. Return its minutes with their requests, and the moment until which the report is complete.
    """
    reported = sent.take(**options)
    if reported is None:
        return None
    minutes = [(one.minute - BEGIN, dict(one.seconds)) for _, one in reported.reports]
    return minutes, reported.complete_until - BEGIN


def test_a_minute_is_reported_when_its_requests_have_ended(sent, clock):
    request = send(sent)
    clock.at += 90

    assert taken(sent) is None or taken(sent) == ([], 0)
    sent.count_answered(*request, 100)
    assert taken(sent) == ([(0, {0: 1})], 60)


def test_a_report_is_repeated_until_it_is_stored(sent, clock):
    sent.count_answered(*send(sent), 100)
    clock.at += 90
    lost = taken(sent)
    clock.at += 60
    reported = sent.take()
    sent.confirm(reported)

    assert lost == ([(0, {0: 1})], 60)
    assert [number for number, _ in reported.reports] == [1]
    assert taken(sent) is None


def test_an_idle_worker_reports_once_a_minute_that_it_sent_nothing(sent, clock):
    clock.at += 90
    reported = sent.take()
    sent.confirm(reported)

    assert (reported.reports, reported.complete_until) == ([], BEGIN + 60)
    assert sent.take() is None
    clock.at += 60
    assert taken(sent) == ([], 120)


def test_the_last_report_of_a_worker_has_all_unreported_requests(sent, clock):
    sent.count_unanswered(*send(sent))
    clock.at += 7

    reported = sent.take(is_last=True)

    ((_, one),) = reported.reports
    assert (one.unanswered, one.limits, reported.is_all) == ({0: 1}, [(0, 2.0, None)], True)


def test_a_record_that_is_switched_off_reports_only_earlier_requests(sent, clock):
    sent.count_answered(*send(sent), 100)
    clock.at += 30
    sent.switch(is_on=False)
    clock.at += 600
    reported = sent.take()
    sent.confirm(reported)

    assert (len(reported.reports), reported.complete_until, reported.is_all) == (1, BEGIN + 30, False)
    assert sent.take() is None
    sent.switch(is_on=True)
    clock.at += 90
    assert sent.take().since == BEGIN + 630


def test_changes_of_the_limit_within_a_minute_are_counted(sent, clock):
    for gap in (1.0, 1.0, 60.0):
        sent.count_answered(*send(sent, gap=gap), 1)
        clock.at += 5

    ((_, one),) = sent.take(is_last=True).reports
    assert one.limits == [(0, 1.0, None), (10, 60.0, None)]
