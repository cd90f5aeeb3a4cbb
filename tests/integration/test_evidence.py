"""
Proves that the evidence of each host is an append-only chain of its requests, in which missing time is a named gap.
"""

import datetime as dt
import json
from uuid import uuid4

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from jobs.duties.cleaning import clean
from jobs.duties.evidence import EVIDENCE_TO_CHAIN, append_evidence
from jobs.duties.retention_subjects import SUBJECTS
from jobs.evidence.coverage import SET_BACK
from jobs.evidence.minutes import Report
from jobs.models import EvidenceBlock, EvidenceChain, EvidenceRecorder, EvidenceReport
from jobs.queries.hosts.evidence import read_chain
from jobs.queue.evidence import Reported, report
from nodes.database.clock import read_clock
from nodes.lifecycle import NodeStatus
from nodes.membership.fences import FenceRefused
from nodes.models import DatabaseRestore
from tests.support.api import client_of
from tests.support.cluster import register_node, seconds
from tests.support.factories import make_bin
from tests.support.stepping import Main
from tests.support.tables import each_row

HOST = "a.example"
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture(autouse=True)
def evidence_is_kept(settings, in_one_transaction):
    set_days_of_evidence(settings, days=30)


def set_days_of_evidence(settings, *, days):
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, "crawl.keep_evidence": days}


@pytest.fixture
def begin(connection):
    """Return the first minute of the tests, in which all nodes start."""
    return read_clock().replace(second=0, microsecond=0) + MINUTE


@pytest.fixture
def main(connection):
    return Main(connection)


def send(connection, worker, begin, *minutes, host=HOST, until=None, first=1, **facts):
    """
    Report two requests in each of these minutes, and report all requests before the minute `until` as complete.
    """
    reports = [
        (first + number, Report(host, moment(begin, minute), {0: 1, 10: 1}, limits=((0, 10.0, None),)))
        for number, minute in enumerate(minutes)
    ]
    until = max(minutes) + 1 if until is None else until
    report(connection, worker=worker.id, reported=Reported(reports, None, moment(begin, until), **facts))


def moment(begin, minute):
    return int((begin + minute * MINUTE).timestamp())


def append(main, begin, *, until):
    """Append to the chains the blocks of all minutes before the minute `until`."""
    main.now = begin + (until + 2) * MINUTE
    return main.step(append_evidence)


def end(connection, worker, at, status=NodeStatus.FAILED):
    connection.execute(
        "UPDATE nodes_node SET status = %s, stopped_at = %s WHERE id = %s", (status.value, at, worker.id)
    )


def exported(capsys, *arguments):
    call_command("evidence", "export", HOST, *arguments)
    return capsys.readouterr().out


def checked(capsys, tmp_path, text, log=None):
    """Check this text of an export, against this log; return the exit code and the answer."""
    (tmp_path / "evidence.ndjson").write_text(text)
    arguments = [str(tmp_path / "evidence.ndjson")]
    if log is not None:
        (tmp_path / "access.log").write_text(log)
        arguments += ["--log", str(tmp_path / "access.log")]
    try:
        call_command("evidence", "check", *arguments)
    except CommandError as error:
        return error.returncode, str(error)
    return 0, capsys.readouterr().out


def log_of(begin, *minutes, also=()):
    """Return the access log of the requests that `send` reports in these minutes, and of other requests."""
    moments = [begin + minute * MINUTE + seconds(second) for minute in minutes for second in (0, 10)]
    return "".join(
        f'192.0.2.1 - - [{at.astimezone(dt.UTC):%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" 200 5\n'
        for at in sorted([*moments, *also])
    )


def recorded(connection, main, worker, begin, minutes=3):
    """Record requests in some minutes. The first minute only starts the record, so its requests are not in it."""
    send(connection, worker, begin, until=1)
    append(main, begin, until=1)
    send(connection, worker, begin, *range(1, minutes + 1))
    append(main, begin, until=minutes + 1)


# --- Recording and checking ----------------------------------------------------------------------


def test_an_export_is_confirmed_by_the_log_of_the_site(connection, main, worker, begin, capsys, tmp_path):
    recorded(connection, main, worker, begin)

    code, answer = checked(capsys, tmp_path, exported(capsys), log_of(begin, 1, 2, 3))

    assert code == 0, answer
    assert f"{HOST}: 6 requests in 3 blocks. The chain is intact, and the access log agrees." in answer
    assert "may be missing" not in answer


@each_row("tamper", ["", "also"])
def test_missing_and_additional_lines_of_the_log_are_found(connection, main, worker, begin, capsys, tmp_path, tamper):
    recorded(connection, main, worker, begin)
    log = log_of(begin, 1, 2, 3, also=[begin + 2 * MINUTE + seconds(30)] if tamper else ())
    lines = log.splitlines(keepends=True)

    code, answer = checked(capsys, tmp_path, exported(capsys), log if tamper else "".join(lines[:2] + lines[3:]))

    assert (code, "the log has a request" in answer, "the log lacks" in answer) == (1, bool(tamper), not tamper)


def test_a_changed_export_is_found(connection, main, worker, begin, capsys, tmp_path):
    recorded(connection, main, worker, begin)
    lines = exported(capsys).splitlines()
    for changed in (
        [*lines[:2], *lines[3:]],
        [*lines[:2], lines[2].replace("[10,1]", "[10,2]"), *lines[3:]],
    ):
        code, answer = checked(capsys, tmp_path, "\n".join(changed))
        assert (code, answer.startswith("The chain is broken. ")) == (1, True)


def test_the_export_of_a_period_is_a_valid_part_of_the_chain(connection, main, worker, begin, capsys, tmp_path):
    recorded(connection, main, worker, begin, minutes=5)
    text = exported(capsys, "--since", (begin + 2 * MINUTE).isoformat(), "--until", (begin + 4 * MINUTE).isoformat())

    code, answer = checked(capsys, tmp_path, text, log_of(begin, 1, 2, 3, 4, 5))

    assert (code, "4 requests in 2 blocks" in answer) == (0, True)


def test_an_export_before_the_first_request_says_that_none_was_sent(connection, main, worker, begin, capsys, tmp_path):
    send(connection, worker, begin, until=1)
    append(main, begin, until=1)
    send(connection, worker, begin, 5)
    append(main, begin, until=6)
    log = log_of(begin, 5, also=[begin + 3 * MINUTE])

    text = exported(capsys, "--since", (begin + 2 * MINUTE).isoformat())

    assert checked(capsys, tmp_path, exported(capsys), log)[0] == 0
    code, answer = checked(capsys, tmp_path, text, log)
    assert (code, "the log has a request that the evidence lacks" in answer) == (1, True)
    earlier = json.loads(exported(capsys, "--since", "2001-01-01T00:00Z").splitlines()[0])
    assert dt.datetime.fromisoformat(earlier["from"]) <= begin + MINUTE


def test_requests_of_several_workers_in_a_minute_form_one_block(connection, main, worker, begin):
    other = register_node(connection, "worker")
    for one in (worker, other):
        send(connection, one, begin, 0)

    assert append(main, begin, until=1) == 2

    block = json.loads(EvidenceBlock.objects.get(chain__host=HOST).content)
    assert block["sent"] == [[0, 2], [10, 2]]


def test_a_report_that_is_written_twice_counts_once(connection, main, worker, begin):
    send(connection, worker, begin, 0)
    append(main, begin, until=1)
    send(connection, worker, begin, 0)
    append(main, begin, until=1)

    assert EvidenceBlock.objects.filter(chain__host=HOST).count() == 1


def test_a_manager_that_lost_its_term_appends_nothing(connection, main, worker, begin):
    send(connection, worker, begin, 0)
    connection.execute("UPDATE nodes_mainterm SET term = term + 1")

    with pytest.raises(FenceRefused):
        append(main, begin, until=1)

    assert not EvidenceBlock.objects.exists()


def test_hosts_without_evidence_and_empty_periods_are_refused(connection, main, worker, begin, capsys):
    with pytest.raises(CommandError, match="no evidence") as unknown:
        exported(capsys)
    recorded(connection, main, worker, begin)
    with pytest.raises(CommandError, match="no complete minute") as empty:
        exported(capsys, "--until", begin.isoformat())
    with pytest.raises(CommandError) as nonsense:
        call_command("evidence", "check", "/nowhere")

    assert {one.value.returncode for one in (unknown, empty, nonsense)} == {2}


def test_a_period_that_ends_before_it_begins_is_refused_even_without_evidence(db, capsys):
    with pytest.raises(CommandError, match="The end must be after the begin, 2026-11-30T00:00") as reversed_period:
        exported(capsys, "--since", "2026-11-30", "--until", "2026-11-29")

    assert reversed_period.value.returncode == 2


# --- The record says where it lacks requests ------------------------------------------------------


def test_the_last_minutes_of_a_killed_worker_are_a_gap(connection, main, worker, begin, capsys, tmp_path):
    recorded(connection, main, worker, begin, minutes=2)
    end(connection, worker, begin + 3.5 * MINUTE)
    append(main, begin, until=6)
    log = log_of(begin, 1, 2, also=[begin + 3 * MINUTE + seconds(20)])

    code, answer = checked(capsys, tmp_path, exported(capsys), log)

    assert code == 0, answer
    assert f"From {begin + 3 * MINUTE:%Y-%m-%dT%H:%M:%SZ} to {begin + 4 * MINUTE:%Y-%m-%dT%H:%M:%SZ}, " in answer
    assert "requests may be missing. A worker ended without its last report." in answer


def test_a_minute_is_not_exported_before_all_workers_have_reported_it(connection, main, worker, begin, capsys):
    silent = register_node(connection, "worker")
    send(connection, silent, begin, until=1)
    recorded(connection, main, worker, begin)

    with pytest.raises(CommandError, match="no complete minute"):
        exported(capsys)

    send(connection, silent, begin, until=3)
    append(main, begin, until=4)
    assert json.loads(exported(capsys).splitlines()[0])["until"] == f"{begin + 3 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"


def test_a_worker_that_ended_in_order_leaves_no_gap_and_no_row(connection, main, worker, begin):
    recorded(connection, main, worker, begin, minutes=2)
    send(connection, worker, begin, 3, first=9, is_all=True)
    end(connection, worker, begin + 4.5 * MINUTE, NodeStatus.STOPPED)
    append(main, begin, until=6)

    assert EvidenceChain.objects.get(host="").seq == 1
    assert EvidenceChain.objects.get(host="").complete_until == begin + 6 * MINUTE
    assert not EvidenceRecorder.objects.exists()


def test_the_time_in_which_recording_was_switched_off_is_a_gap(connection, main, worker, begin, settings):
    recorded(connection, main, worker, begin, minutes=2)
    set_days_of_evidence(settings, days=0)
    assert append(main, begin, until=60) == 0
    set_days_of_evidence(settings, days=30)
    again = Reported([], float(moment(begin, 58)), moment(begin, 62))
    report(connection, worker=worker.id, reported=again)

    append(main, begin, until=62)

    gap = json.loads(EvidenceBlock.objects.filter(chain__host="").last().content)
    assert (gap["from"], gap["until"]) == (
        f"{begin + 3 * MINUTE:%Y-%m-%dT%H:%M:%SZ}",
        f"{begin + 58 * MINUTE:%Y-%m-%dT%H:%M:%SZ}",
    )


def test_a_clock_set_back_leaves_a_valid_chain_with_a_named_gap(connection, main, worker, begin, capsys, tmp_path):
    recorded(connection, main, worker, begin)
    complete = EvidenceChain.objects.get(host="").complete_until
    # The requests are an hour earlier, so their minutes are before the first recorded minute.
    send(connection, worker, begin, -58, -57, first=20)

    assert append(main, begin, until=-56) == 3
    send(connection, worker, begin, -56, first=30)
    assert append(main, begin, until=-55) == 1

    assert read_chain(HOST, now=main.now).problem == ""
    gap = json.loads(EvidenceBlock.objects.filter(chain__host="").last().content)
    assert (gap["why"], gap["until"]) == (SET_BACK, f"{complete:%Y-%m-%dT%H:%M:%SZ}")
    assert EvidenceChain.objects.get(host="").complete_until == complete
    log = log_of(begin, -58, -57, -56, 1, 2, 3)
    code, answer = checked(capsys, tmp_path, exported(capsys), log)
    assert code == 0, answer
    assert "The clock of the database was set back" in answer


def test_after_a_clock_jump_the_record_continues_at_its_last_minute(connection, main, worker, begin):
    recorded(connection, main, worker, begin)
    append(main, begin, until=-56)
    send(connection, worker, begin, *range(4, 7), first=40)

    append(main, begin, until=7)

    assert EvidenceChain.objects.get(host="").complete_until == begin + 7 * MINUTE
    assert EvidenceBlock.objects.filter(chain__host="").count() == 2


def test_a_clock_that_was_set_back_twice_leaves_two_gaps(connection, main, worker, begin):
    recorded(connection, main, worker, begin)

    for until in (-56, -55, -90, -89):
        append(main, begin, until=until)

    gaps = [json.loads(block.content) for block in EvidenceBlock.objects.filter(chain__host="").order_by("seq")[1:]]
    assert [gap["from"] for gap in gaps] == [f"{begin + minute * MINUTE:%Y-%m-%dT%H:%M:%SZ}" for minute in (-56, -90)]


def test_no_duty_is_due_if_nothing_is_recorded(connection):
    def is_due():
        return connection.execute(f"SELECT {EVIDENCE_TO_CHAIN}", {"scope": "cluster"}).fetchone()[0]

    assert not is_due()
    EvidenceRecorder.objects.create(worker=uuid4(), since=read_clock(), complete_until=read_clock())
    assert is_due()


def test_a_restored_database_has_a_gap_since_its_backup(connection, main, worker, begin):
    recorded(connection, main, worker, begin, minutes=1)
    send(connection, worker, begin, until=30)
    DatabaseRestore.objects.create(
        as_of=begin + 10 * MINUTE, noticed_at=begin + 20 * MINUTE, before="a", after="b", nodes_ended=0
    )
    append(main, begin, until=30)

    gap = json.loads(EvidenceBlock.objects.filter(chain__host="").last().content)
    assert (gap["from"], gap["until"]) == tuple(f"{begin + minute * MINUTE:%Y-%m-%dT%H:%M:%SZ}" for minute in (5, 20))


# --- Append-only ----------------------------------------------------------------------------------


@each_row(
    "statement",
    [
        "UPDATE jobs_evidenceblock SET content = '{}'",
        "DELETE FROM jobs_evidenceblock WHERE seq = 2",
        "TRUNCATE jobs_evidenceblock",
        "TRUNCATE jobs_evidencechain CASCADE",
        "DELETE FROM jobs_evidencechain",
        "UPDATE jobs_evidencechain SET hash = 'other'",
        "UPDATE jobs_evidencechain SET seq = seq - 1",
        "UPDATE jobs_evidencechain SET host = host || '.org'",
        "UPDATE jobs_evidencechain SET complete_until = complete_until - interval '1 hour'",
    ],
)
def test_the_database_refuses_to_change_the_record(connection, main, worker, begin, statement):
    recorded(connection, main, worker, begin)

    with pytest.raises(psycopg.errors.RestrictViolation), connection.transaction():
        connection.execute(statement)


def test_a_chain_is_valid_after_retention_deleted_its_oldest_blocks(
    connection, main, worker, begin, settings, capsys, tmp_path
):
    recorded(connection, main, worker, begin)
    main.now = begin + 60 * MINUTE
    send(connection, worker, begin, 58, 59, first=9)
    append(main, begin, until=60)

    clean(connection, SUBJECTS["evidence"], now=begin + 30 * MINUTE + dt.timedelta(days=30))

    chain = EvidenceChain.objects.get(host=HOST)
    assert (chain.pruned_seq, chain.seq) == (3, 5)
    assert read_chain(HOST, now=main.now).problem == ""
    code, answer = checked(capsys, tmp_path, exported(capsys), log_of(begin, 58, 59))
    assert code == 0, answer


def test_chained_reports_are_deleted_after_an_hour(connection, main, worker, begin):
    send(connection, worker, begin, 0)
    append(main, begin, until=1)
    assert EvidenceReport.objects.exists()

    append(main, begin, until=90)

    assert not EvidenceReport.objects.exists()


# --- Pages and API --------------------------------------------------------------------------------


@pytest.fixture
def host():
    return make_bin(HOST)


def test_the_page_of_a_host_and_the_api_show_the_state_of_the_chain(connection, main, worker, begin, host):
    recorded(connection, main, worker, begin)
    client = client_of("viewer")

    page = client.get(f"/hosts/{host.pk}/").content.decode()
    shown = client.get(f"/api/v1/hosts/{host.pk}/evidence/").json()

    chain = EvidenceChain.objects.get(host=HOST)
    assert (shown["is_recorded"], shown["blocks"], shown["hash"]) == (True, 3, chain.hash)
    assert (shown["verified"], shown["problem"]) == (3, "")
    assert [(minute["requests"], minute["most_in_a_second"], minute["gap"]) for minute in shown["minutes"]] == [
        (2, 1, 10.0)
    ] * 3
    assert chain.hash in page
    assert "The newest 3 blocks are intact." in page
    assert f"/api/v1/hosts/{host.pk}/evidence/file/" in page


def test_the_page_of_a_host_verifies_only_the_newest_blocks(connection, main, worker, begin, host, monkeypatch):
    monkeypatch.setattr("jobs.queries.hosts.evidence._VERIFIED", 2)
    recorded(connection, main, worker, begin)

    assert "The newest 2 blocks are intact." in client_of("viewer").get(f"/hosts/{host.pk}/").content.decode()


def test_a_broken_chain_of_evidence_is_shown(connection, main, worker, begin, host):
    recorded(connection, main, worker, begin)
    connection.execute("ALTER TABLE jobs_evidenceblock DISABLE TRIGGER USER")
    connection.execute("UPDATE jobs_evidenceblock SET content = replace(content, 'bytes', 'sizes') WHERE seq = 2")
    connection.execute("ALTER TABLE jobs_evidenceblock ENABLE TRIGGER USER")
    client = client_of("viewer")

    shown = client.get(f"/api/v1/hosts/{host.pk}/evidence/").json()

    assert shown["problem"] == "Block 2 does not match its hash."
    assert "Block 2 does not match its hash." in client.get(f"/hosts/{host.pk}/").content.decode()


async def body_of(answer):
    return b"".join([piece async for piece in answer]).decode()


def test_the_api_and_the_command_export_the_same_file(connection, main, worker, begin, host, capsys):
    recorded(connection, main, worker, begin)
    client = client_of("viewer")
    address = f"/api/v1/hosts/{host.pk}/evidence/file/"

    answer = client.get(address, {"since": begin.isoformat()})
    text = async_to_sync(body_of)(answer)
    empty = client.get(address, {"until": begin.isoformat()})
    nonsense = client.get(address, {"until": "yesterday"})
    other = client.get(f"/api/v1/hosts/{make_bin('b.example').pk}/evidence/file/")

    assert text == exported(capsys, "--since", begin.isoformat())
    assert answer["Content-Type"] == "application/x-ndjson"
    assert [(one.status_code, one.json()["code"]) for one in (empty, nonsense, other)] == [
        (400, "invalid"),
        (400, "invalid"),
        (404, "not_found"),
    ]
    assert "until" in empty.json()["fields"]


def test_a_host_without_evidence_shows_none_on_its_page_and_in_the_api(connection, host, settings):
    set_days_of_evidence(settings, days=0)
    client = client_of("viewer")

    assert client.get(f"/api/v1/hosts/{host.pk}/evidence/").json()["is_recorded"] is False
    assert "Evidence of politeness" not in client.get(f"/hosts/{host.pk}/").content.decode()


def test_the_last_hash_is_public_if_the_figures_of_the_host_are_public(
    connection, main, worker, begin, host, settings, client
):
    recorded(connection, main, worker, begin)
    values = {"webmasters.pages": True, "webmasters.shown": (HOST,)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

    page = client.get(f"/webmasters/{HOST}/").content.decode()
    shown = client.get(f"/api/v1/webmasters/{HOST}/").json()["figures"]

    last = EvidenceChain.objects.get(host=HOST).hash
    assert last in page
    assert (shown["evidence_blocks"], shown["evidence_hash"]) == (3, last)
