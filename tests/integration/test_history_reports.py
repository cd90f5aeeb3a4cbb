"""Proves that reports on the history agree with a simple calculation in Python from the same rows."""

import datetime as dt
from collections import Counter

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import Activity
from jobs.queries.reports.busiest import Measure, read_busiest
from jobs.queries.reports.classes import HOST, class_of
from jobs.queries.reports.execution import BadPattern, BadPosition
from jobs.queries.reports.histogram import read_histogram
from jobs.queries.reports.history_filter import HistoryFilter, list_activities
from jobs.queries.reports.simple_history import SORTS, read_simple_history, read_timeline
from nodes.errors import TooSlow
from tests.support.api import make_job
from tests.support.cluster import NOON, seconds
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HOUR = seconds(3600)


@pytest.fixture
def job():
    return make_job()


def add_activity(job, after, entity="http://a.example/", activity="fetch", **facts):
    """Add an entry to the history, `after` seconds after noon."""
    usual = {"bytes": 100, "seconds": 0.5, "result_code": "200", "job": job, "repository": job.repository}
    return Activity.objects.create(
        started_at=NOON + seconds(after), entity=entity, activity=activity, **(usual | facts)
    )


def asked(**facts):
    return HistoryFilter(**({"since": NOON, "until": NOON + HOUR} | facts))


def simple(limit=100, **facts):
    orders = {name: facts.pop(name) for name in ("sort", "descending", "after") if name in facts}
    return read_simple_history(asked(**facts), limit=limit, **orders)


def identifiers(page):
    return [line.identifier for line in page.lines]


# --- Simple history ------------------------------------------------------------------------------


def test_a_line_of_the_history_names_the_action_the_object_and_the_result(job):
    output = job.outputs.get()
    add_activity(
        job, 1, activity="document ingest", output=output, seconds=None, result_code="OK", result_description="fine"
    )

    (line,) = simple().lines

    assert (line.activity, line.identifier) == ("document ingest (index)", "http://a.example/")
    assert (line.started_at, line.seconds, line.bytes) == (NOON + seconds(1), None, 100)
    assert (line.result_code, line.result_description) == ("OK", "fine")
    assert (line.job, line.job_id, line.repository) == (job.name, job.pk, "the web")


def test_a_period_includes_its_beginning_and_excludes_its_end(job):
    for moment in (-1, 0, 1, 3600):
        add_activity(job, moment, entity=str(moment))

    assert identifiers(simple()) == ["1", "0"]


@each_row(
    ("facts", "found"),
    [
        ({"entity": "a$"}, ["a"]),
        ({"entity": "(?i)^A"}, ["a"]),
        ({"code": "^5"}, ["b"]),
        ({"activities": ["fetch"]}, ["b", "a"]),
        ({"activities": ["document ingest (index)"]}, ["c"]),
        ({"activities": ["document ingest"]}, ["c"]),
        ({"activities": ["document ingest (other)"]}, []),
        ({"activities": ["document ingest (index)", "fetch"]}, ["c", "b", "a"]),
    ],
    ids=str,
)
def test_filters_return_exactly_the_matching_rows(job, facts, found):
    add_activity(job, 1, entity="a")
    add_activity(job, 2, entity="b", result_code="503")
    add_activity(job, 3, entity="c", activity="document ingest", output=job.outputs.get())

    assert identifiers(simple(**facts)) == found


def test_a_report_can_be_limited_to_one_source_or_one_job(job):
    other = make_job("other", repository=type(job.repository).objects.create(name="another web"))
    add_activity(job, 1, entity="mine")
    add_activity(other, 2, entity="theirs")

    assert identifiers(simple()) == ["theirs", "mine"]
    assert identifiers(simple(repository_id=job.repository_id)) == ["mine"]
    assert identifiers(simple(job_id=other.pk)) == ["theirs"]


def test_the_history_of_a_deleted_job_is_still_shown(job):
    add_activity(job, 1)
    connection.cursor().execute("UPDATE jobs_activity SET job_id = 999999")

    (line,) = simple().lines

    assert (line.job, line.job_id) == ("", None)


@each_row("descending", [True, False])
@each_row("sort", SORTS)
def test_pages_of_the_history_have_each_row_once_in_every_order(job, sort, descending):
    for number in range(7):
        add_activity(job, number // 3, entity=f"page {number % 4}", bytes=[None, 1, 2][number % 3], seconds=None)
    whole = simple(sort=sort, descending=descending)

    paged, after = [], None
    while True:
        page = simple(limit=2, sort=sort, descending=descending, after=after)
        paged += page.lines
        after = page.next
        if after is None:
            break

    assert paged == whole.lines
    assert len(whole.lines) == 7
    keys = [SORT_KEYS[sort](line) for line in whole.lines]
    assert keys == sorted(keys, reverse=descending)


SORT_KEYS = {
    "start": lambda line: line.started_at,
    "activity": lambda line: line.activity,
    "identifier": lambda line: line.identifier,
    "code": lambda line: line.result_code,
    "bytes": lambda line: -1 if line.bytes is None else line.bytes,
    "seconds": lambda line: -1 if line.seconds is None else line.seconds,
}


def test_a_position_from_another_order_is_refused(job):
    for number in range(3):
        add_activity(job, number)
    after = simple(limit=1).next

    with pytest.raises(BadPosition):
        simple(after=after, sort="bytes")
    with pytest.raises(BadPosition):
        simple(after="forged")


def test_a_timeline_counts_each_activity_in_equal_steps(job):
    for moment in (0, 1, 1799, 1800, 3599):
        add_activity(job, moment)
    add_activity(job, 3599, activity="document ingest", output=job.outputs.get())

    timeline = read_timeline(asked(), steps=2)

    assert timeline.counts == {"document ingest": [0, 1], "fetch": [3, 2]}
    assert (timeline.since, timeline.step) == (NOON, HOUR / 2)


def test_activities_of_a_report_include_outputs_that_hold_documents(job):
    type(job.outputs.get()).objects.create(name="nothing", connector="null")

    assert {"fetch", "job start", "document ingest (index)", "document deletion (index)"} <= set(list_activities())
    assert not [name for name in list_activities() if "nothing" in name]


# --- Patterns ------------------------------------------------------------------------------------


@each_row("field", ["entity", "code"])
def test_an_invalid_pattern_is_refused_by_its_field_even_without_rows(field):
    with pytest.raises(BadPattern) as refused:
        simple(**{field: "a(b"})

    assert refused.value.field == field
    assert "parentheses" in str(refused.value)


def test_an_invalid_pattern_for_classes_of_identifiers_is_refused():
    for ask, name in ((read_histogram, "result_class"), (read_histogram, "identifier_class")):
        with pytest.raises(BadPattern) as refused:
            ask(asked(), limit=1, **{name: "["})
        assert refused.value.field == name
    with pytest.raises(BadPattern):
        read_busiest(asked(), measure=Measure.EVENTS, identifier_class="*", limit=1)


def test_a_pattern_of_endless_length_is_refused():
    with pytest.raises(BadPattern, match="1000 characters"):
        simple(entity="a" * 1001)


def test_a_pattern_that_grows_beyond_the_memory_of_the_database_is_refused():
    with pytest.raises(BadPattern, match="too much memory"):
        simple(entity="(.{1,255}x){1,150}")


def test_a_report_that_takes_too_long_is_cancelled(job, monkeypatch):
    monkeypatch.setattr("jobs.queries.reports.execution._STATEMENT_TIMEOUT_SECONDS", 0.001)
    for number in range(300):
        add_activity(job, number)

    with pytest.raises(TooSlow):
        read_histogram(asked(), identifier_class=r"(.*)*(.*)*\1x", limit=10)
    assert connection.cursor().execute("SELECT 1") is not None


# --- Maximum activity and bandwidth ----------------------------------------------------------------


def busiest(measure=Measure.EVENTS, interval=10, limit=10, **facts):
    page = read_busiest(asked(), measure=measure, interval=seconds(interval), limit=limit, **facts)
    return [(line.identifier_class, (line.began_at - NOON).total_seconds(), line.amount) for line in page.lines]


def test_the_busiest_interval_is_found_at_any_start(job):
    for moment in (0, 9, 12, 15, 18.999, 40):
        add_activity(job, moment)

    assert busiest() == [("", 9, 4)]


def test_the_end_of_an_interval_does_not_belong_to_it(job):
    add_activity(job, 0)
    add_activity(job, 10)

    assert busiest() == [("", 0, 1)]


def test_known_bytes_are_summed_and_unknown_bytes_stay_unknown(job):
    add_activity(job, 0, bytes=5)
    add_activity(job, 1, bytes=None)
    add_activity(job, 20, bytes=3)
    add_activity(job, 25, bytes=3)

    assert busiest(Measure.BYTES) == [("", 20, 6)]


def test_each_class_has_its_own_busiest_interval(job):
    for moment, host in ((0, "a"), (1, "b"), (2, "a"), (30, "b"), (31, "b"), (32, "b")):
        add_activity(job, moment, entity=f"http://{host}.example/")
    add_activity(job, 50, entity="no address")

    assert busiest(identifier_class="//([^/]*)") == [("b.example", 30, 3), ("a.example", 0, 2), ("", 50, 1)]


def test_classes_are_listed_in_pages(job):
    for number in range(5):
        add_activity(job, 0, entity=f"{number % 3}")
    first = read_busiest(asked(), measure=Measure.EVENTS, identifier_class="(.*)", limit=2)

    second = read_busiest(asked(), measure=Measure.EVENTS, identifier_class="(.*)", limit=2, after=first.next)

    assert [(line.identifier_class, line.amount) for line in [*first.lines, *second.lines]] == [
        ("0", 2),
        ("1", 2),
        ("2", 1),
    ]
    assert second.next is None
    assert first.lines[0].per_minute == 2 / 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.lists(st.integers(0, 60), min_size=1, max_size=12), interval=st.integers(1, 30))
def test_no_interval_is_busier_than_the_reported_interval(job, moments, interval):
    rows = [(NOON + seconds(moment), moment * 7 + 1) for moment in moments]
    Activity.objects.all().delete()
    for moment in moments:
        add_activity(job, moment, bytes=moment * 7 + 1)

    def best(value):
        starts = sorted({begin for begin, _ in rows})
        sums = {s: sum(value(size) for at, size in rows if s <= at < s + seconds(interval)) for s in starts}
        most = max(sums.values())
        return [("", (min(s for s in starts if sums[s] == most) - NOON).total_seconds(), most)]

    assert busiest(interval=interval) == best(lambda _size: 1)
    assert busiest(Measure.BYTES, interval=interval) == best(lambda size: size)


# --- Result histogram ----------------------------------------------------------------------------


def test_results_are_counted_by_class_of_identifier_and_result(job):
    results = [("a", "200"), ("a", "200"), ("a", "404"), ("b", "500"), ("b", "503"), ("b", "DNS")]
    for host, code in results:
        add_activity(job, 1, entity=f"http://{host}.example/", result_code=code)

    def counted(**facts):
        return {
            (li.identifier_class, li.result_class): li.amount for li in read_histogram(asked(), limit=99, **facts).lines
        }

    assert counted() == {("", code): n for code, n in Counter(code for _, code in results).items()}
    assert counted(identifier_class="//(.)", result_class="^([0-9])") == {
        ("a", "2"): 2,
        ("a", "4"): 1,
        ("b", "5"): 2,
        ("b", ""): 1,
    }


@given(texts=st.lists(st.text(alphabet="ab/:. \n", max_size=12), min_size=1, max_size=20))
def test_the_host_of_an_address_is_extracted_by_its_pattern(texts):
    fast = class_of("said.text", HOST, parameter="pattern")
    by_pattern = "coalesce(substring(said.text FROM %(pattern)s), '') COLLATE \"C\""

    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {fast}, {by_pattern} FROM unnest(%(texts)s::text[]) AS said(text)",
            {"texts": texts, "pattern": HOST},
        )

        assert all(ours == theirs for ours, theirs in cursor.fetchall())


def test_counts_of_results_are_listed_in_pages_with_the_highest_first(job):
    for code, times in (("404", 2), ("200", 3), ("DNS", 2)):
        for _ in range(times):
            add_activity(job, 1, result_code=code)
    first = read_histogram(asked(), limit=2)

    second = read_histogram(asked(), limit=2, after=first.next)

    assert [(line.result_class, line.amount) for line in [*first.lines, *second.lines]] == [
        ("200", 3),
        ("404", 2),
        ("DNS", 2),
    ]
    assert second.next is None


def test_a_report_covers_several_days(job):
    add_activity(job, 0)
    add_activity(job, 86_400)
    wanted = asked(until=NOON + dt.timedelta(days=2))

    assert len(read_simple_history(wanted, limit=9).lines) == 2
    assert read_histogram(wanted, limit=9).lines[0].amount == 2
