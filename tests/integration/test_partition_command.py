"""`manage.py partition list` shows the partitions as the control partition sees them."""

import datetime as dt
import json

import pytest
from django.core.management import CommandError, call_command

from jobs.attention import partitions as attention
from jobs.models import PartitionedJob
from jobs.partitions.facts import send_fact
from jobs.partitions.kept_log import Behind
from jobs.partitions.move_notes import REPORT_KEY, read_move
from jobs.partitions.moving import Report
from jobs.partitions.placement import SLOTS
from jobs.partitions.slots import keep_map
from jobs.partitions.this_partition import placement
from jobs.queries.jobs.counts import count_present_runs
from jobs.queries.partitions import ALIVE, alive_fact
from tests.integration.test_partitioned_runs import here, main  # noqa: F401 (fixtures)
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_lane, make_running_job
from tests.support.tables import each_row

SECONDS = dt.timedelta(seconds=2)


def lines_of_list(capsys, *words):
    call_command("partition", "list", *words)
    return capsys.readouterr().out.splitlines()


def test_the_command_says_that_a_single_database_has_no_partitions(connection, capsys):
    assert lines_of_list(capsys) == ["This database is the only one: CRAWLCTL_PARTITIONS names no other."]


def test_the_list_of_partitions_has_shares_documents_and_the_age_of_figures(connection, here, capsys):  # noqa: F811
    here("a")
    send_fact(connection, "b", "a", ALIVE, {"documents": 3, "at": "2026-11-24T16:00:00Z"})

    of_a, of_b = (json.loads(line) for line in lines_of_list(capsys, "--json"))

    assert (of_a["name"], of_a["control"], of_a["here"], of_a["slots"]) == ("a", True, True, 512)
    assert (of_b["name"], of_b["control"], of_b["documents"], of_b["receives"]) == ("b", False, 3, False)
    assert of_b["sent_at"] is not None
    assert "takes no rows of this partition now" in lines_of_list(capsys)[1]


def test_the_page_and_the_api_show_a_silent_partition(connection, here, client, admin_user):  # noqa: F811
    here("a")
    send_fact(connection, "b", "a", ALIVE, {"documents": 1234, "rate": 2.5})
    connection.execute("UPDATE jobs_partitionfact SET sent_at = now() - interval '10 minutes'")
    client.force_login(admin_user)

    page = client.get("/cluster/partitions/").content.decode()
    of_a, of_b = client.get("/api/v1/cluster/partitions/").json()

    assert "1,234" in page
    assert "10 min ago" in page
    assert (of_a["here"], of_a["control"], of_a["silent"]) == (True, True, False)
    assert (of_b["documents"], of_b["rate"], of_b["silent"], of_b["receives"]) == (1234, 2.5, True, False)


def test_counts_that_lack_a_silent_partition_are_marked_as_incomplete(connection, here, main, client, admin_user):  # noqa: F811
    here("a")
    job = make_running_job(main.node).job
    client.force_login(admin_user)
    warning = "The true counts may be higher: partition b sent its last figures"
    send_fact(connection, "b", "a", ALIVE, {"documents": 1234, "rate": 2.5})
    connection.execute("UPDATE jobs_partitionfact SET sent_at = now() - interval '10 minutes'")

    for address in ("/", "/jobs/", f"/jobs/{job.pk}/"):
        assert f"{warning} 10 min ago." in client.get(address).content.decode()

    connection.execute("UPDATE jobs_partitionfact SET sent_at = now()")
    # The overview also queries the database of partition b, which does not exist in this test.
    assert warning not in client.get("/jobs/").content.decode()


def test_a_database_without_partitions_has_an_empty_page(client, admin_user):
    client.force_login(admin_user)

    assert "This database is the only one." in client.get("/cluster/partitions/").content.decode()
    assert client.get("/api/v1/cluster/partitions/").json() == []


def sign_of_life(before, *, processed, after, waiting=0, epoch=3):
    return alive_fact(before, processed=processed, waiting=waiting, epoch=epoch, now=NOON + after * SECONDS)


def test_a_partition_records_its_rate():
    first = sign_of_life(None, processed=100, waiting=5, after=0)
    second = sign_of_life(first, processed=120, after=1)
    next_run = sign_of_life(second, processed=0, waiting=9, after=2)

    assert (first["documents"], first["rate"]) == (105, 0.0)
    assert second["rate"] == 3.0
    assert next_run["rate"] == 2.1


def test_documents_that_move_between_partitions_do_not_count_in_the_rate():
    idle = sign_of_life(None, processed=100, after=0)
    while_slots_move = sign_of_life(idle, processed=150, epoch=None, after=1)
    after_the_move = sign_of_life(while_slots_move, processed=200, epoch=4, after=2)
    after_a_short_move = sign_of_life(idle, processed=200, epoch=4, after=1)

    assert while_slots_move["rate"] == after_the_move["rate"] == after_a_short_move["rate"] == 0.0


def test_the_counts_of_a_job_contain_those_of_other_partitions(connection, main, here):  # noqa: F811
    here("a")
    running = make_running_job(main.node)
    PartitionedJob.objects.create(job=running.job, number=running.job.pk)
    make_documents(make_lane(running.seed), ["page"])
    for run_no, indexed in ((1, 5), (2, 7)):
        body = {"run_no": run_no, "counts": {"indexed": indexed}}
        send_fact(connection, "b", "a", f"figures:{running.job.pk}", body)
        expected = indexed if run_no == 1 else 0
        assert count_present_runs([running.job.pk])[running.job.pk].indexed == expected


# --- Moves of slots ------------------------------------------------------------------------------


@pytest.fixture
def control(connection, here):  # noqa: F811
    here("a")
    keep_map(connection, placement())


def output_of_command(capsys, *words):
    call_command("partition", *words)
    return capsys.readouterr().out


def test_a_dry_run_shows_the_slots_of_each_partition_and_begins_nothing(control, connection, capsys):
    shown_move = output_of_command(capsys, "move-slots", "--from", "a", "--to", "b", "--count", "64", "--dry-run")

    assert "64 slots leave a, which keeps 448: b gets 64." in shown_move
    assert read_move(connection) is None


def test_a_drained_partition_has_no_slots_left(control, connection, capsys):
    output_of_command(capsys, "drain", "b")

    assert read_move(connection).to.owners == ("a",) * SLOTS
    assert "Move 1: waits until no document is in progress." in lines_of_list(capsys)[-1]

    assert "is cancelled" in output_of_command(capsys, "cancel-move")
    assert lines_of_list(capsys)[-1] == "Move 1: cancelled."


@each_row(
    "words, message",
    [
        (["--from", "a", "--to", "c", "--count", "1"], "no partition 'c'"),
        (["--from", "a", "--to", "a", "--count", "1"], "has these slots already"),
        (["--from", "a", "--to", "b", "--count", "600"], "from 1 to 512"),
        (["--from", "a", "--to", "b", "--slots", "510-513"], "does not have slot 512, 513"),
        (["--from", "a", "--to", "b", "--slots", "9999"], "slots are 0 to 1023"),
        (["--from", "a", "--to", "b", "--slots", "x"], "not a slot"),
    ],
)
def test_an_invalid_move_of_slots_is_refused_with_the_invalid_name(control, connection, words, message):
    with pytest.raises(CommandError, match=message):
        call_command("partition", "move-slots", *words)

    assert read_move(connection) is None


def test_slots_are_moved_in_the_control_partition_only(connection, here):  # noqa: F811
    here("b")

    with pytest.raises(CommandError, match="Move slots in the control partition, a"):
        call_command("partition", "drain", "b")


def test_the_page_and_the_api_show_a_move_and_the_job_that_it_waits_for(control, connection, client, admin_user):
    call_command("partition", "drain", "b")
    waiting = Report(1, 0, waits_for="Job news begins or ends a run.")
    send_fact(connection, "b", "a", REPORT_KEY, waiting.as_json())
    client.force_login(admin_user)

    page = client.get("/cluster/partitions/").content.decode()
    (move,) = client.get("/api/v1/cluster/partitions/moves/").json()

    assert "holds jobs" in page
    assert "Job news begins or ends a run." in page
    assert (move["number"], move["phase"]) == (1, "holding")
    assert [(part["name"], part["held"], part["waits_for"]) for part in move["parts"]] == [
        ("a", False, ""),
        ("b", False, "Job news begins or ends a run."),
    ]


@each_row(
    ("behind", "says"),
    [
        (
            Behind("b", False, 3 * 1024**3, 4 * 1024**3),
            "keeps 3.2 GB of its write-ahead log for partition b; the limit is 4.3",
        ),
        (Behind("b", False, 3 * 1024**3, None), "keeps 3.2 GB of its write-ahead log for partition b, without a limit"),
        (Behind("b", True, 0, 4 * 1024**3), "The write-ahead log for partition b exceeded its limit"),
    ],
    ids=["half", "unlimited", "lost"],
)
def test_a_write_ahead_log_that_grows_for_a_partition_needs_attention(connection, here, monkeypatch, behind, says):  # noqa: F811
    here("a")
    monkeypatch.setattr(attention, "read_behind", lambda _cursor, *, here: [behind] if here == "a" else [])

    (line,) = attention.partitions_behind(NOON)

    assert behind.is_too_far_behind
    assert (line.kind, line.key) == ("partition_behind", "b")
    assert says in line.sentence


@each_row(
    ("name", "why"),
    [
        ("a", "a is the control partition, which cannot be removed."),
        ("c", "There is no partition 'c'. CRAWLCTL_PARTITIONS names others: b."),
        ("b", "Partition b does not answer, so nothing was changed"),
    ],
)
def test_a_refused_removal_of_a_partition_names_the_reason(connection, here, name, why):  # noqa: F811
    here("a")

    with pytest.raises(CommandError, match=why):
        call_command("partition", "remove", name, "--dry-run")


def test_a_partition_is_removed_from_the_control_partition_only(connection, here):  # noqa: F811
    here("b")

    with pytest.raises(CommandError, match="in the control partition, a"):
        call_command("partition", "remove", "b")
