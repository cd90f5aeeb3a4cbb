"""Stored settings are versions of one JSON document, stored or refused as a whole, and available through the API."""

import datetime as dt
import json

import psycopg
import pytest
from django.db import connection as django_connection

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from jobs.settings.table import CLAIMED, TABLE
from nodes.models import Node, NodeEvent, SettingsVersion
from nodes.settings import running, versions
from nodes.settings.declaration import InvalidSettings
from nodes.settings.effective import Effective
from nodes.settings.node_settings import HEARTBEAT_INTERVAL, NODE_TIMEOUT
from nodes.settings.versions import SettingsChanged
from tests.support.api import assert_problem, client_of, make_node

pytestmark = pytest.mark.django_db

SETTINGS = "/api/v1/settings/"
SHORT = {"cluster": {"heartbeat_interval": 1, "node_timeout": 5}}


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """Make this process forget stored settings, as if it had just started."""
    monkeypatch.setattr(running._process, "taken_up", None)


def store(document, **facts):
    return versions.store(TABLE, document, made_by="vera", **facts)


def put(document, query=""):
    return client_of(ADMINISTRATOR).put(f"{SETTINGS}{query}", document, format="json")


# --- Versions ------------------------------------------------------------------------------------


def test_a_stored_setting_is_a_version_with_author_time_and_journal_entry():
    changed = store(SHORT)

    assert [str(change) for change in changed] == [
        "cluster.heartbeat_interval default → 1",
        "cluster.node_timeout default → 5",
    ]
    row = SettingsVersion.objects.get()
    assert (row.version, row.document, row.made_by) == (1, SHORT, "vera")
    assert dt.datetime.now(dt.UTC) - row.at < dt.timedelta(minutes=5)
    event = NodeEvent.objects.get(kind="settings")
    assert event.message.startswith("settings version 1 by vera: cluster.heartbeat_interval default → 1")


def test_an_edit_without_changes_makes_no_version():
    store(SHORT)

    assert store(SHORT) == []
    assert SettingsVersion.objects.count() == 1


def test_a_refused_change_of_settings_stores_nothing():
    with pytest.raises(InvalidSettings):
        store({"worker": {"claimed": 5}, "cluster": {"node_timeout": 3}})

    assert not SettingsVersion.objects.exists()


def test_an_edit_of_an_older_version_is_refused():
    store(SHORT, based_on=0)

    with pytest.raises(SettingsChanged, match="based on version 0, but vera has since stored version 1"):
        store({"worker": {"claimed": 5}}, based_on=0)


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_writers_waits_for_the_next_number(dsn):
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE nodes_settingsversion IN SHARE ROW EXCLUSIVE MODE")
        with django_connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
            with pytest.raises(Exception, match="lock timeout"):
                store(SHORT)
            cursor.execute("SET lock_timeout = 0")
        other.execute(
            "INSERT INTO nodes_settingsversion (version, document, made_by) VALUES (1, %s, 'otto')",
            [json.dumps({"worker": {"claimed": 5}})],
        )
    store(SHORT)

    assert list(SettingsVersion.objects.values_list("version", "made_by")) == [(2, "vera"), (1, "otto")]


def test_known_settings_of_another_release_apply_and_unknown_ones_are_named(caplog):
    document = {"worker": {"claimed": 5, "shoe_size": 44}, "moon": {"phase": 1}, "cluster": SHORT["cluster"]}
    SettingsVersion.objects.create(version=3, document=document, made_by="vera")

    stored = versions.newest(TABLE)

    logged = [record.getMessage() for record in caplog.records]
    named = {line.partition(" of stored settings version 3: ")[0] for line in logged}
    assert named == {"ignored worker.shoe_size", "ignored moon"}

    assert stored.version == 3
    assert set(stored.values) == {CLAIMED.path, HEARTBEAT_INTERVAL.path, NODE_TIMEOUT.path}


# --- A process -----------------------------------------------------------------------------------


def test_a_process_starts_with_stored_settings_and_applies_later_ones(connection, settings):
    settings.CRAWLCTL_ENVIRONMENT = {CLAIMED.path: 7}
    store({"worker": {"claimed": 5, "flush_after": 1}})

    started = running.start_with(running.read_given(["worker.drain_timeout=3"]), connection)
    store(SHORT)
    taken = running.take_up_newest(connection)

    assert (started.version, started[CLAIMED]) == (1, 7)
    assert (taken.version, taken[HEARTBEAT_INTERVAL]) == (2, dt.timedelta(seconds=1))
    assert running.current() is taken
    assert taken.report()["sources"] | {"rest": ""} == {
        **dict.fromkeys((setting.path for setting in TABLE.stored), "default"),
        "worker.claimed": "environment",
        "worker.drain_timeout": "command line",
        "cluster.heartbeat_interval": "stored",
        "rest": "",
    }


def test_a_process_whose_environment_contradicts_stored_settings_stops(connection, settings):
    settings.CRAWLCTL_ENVIRONMENT = {HEARTBEAT_INTERVAL.path: dt.timedelta(seconds=4)}
    store(SHORT)

    with pytest.raises(InvalidSettings, match="version 1 of the stored settings"):
        running.start_with(running.read_given([]), connection)


# --- The API -------------------------------------------------------------------------------------


def test_settings_are_stored_and_shown_through_the_api():
    answer = put(SHORT)

    assert answer.status_code == 200, answer.content
    assert answer.json()["changes"][0] == {
        "path": "cluster.heartbeat_interval",
        "before": None,
        "after": 1,
        "applies": "immediately",
    }
    shown = client_of(OPERATOR).get(SETTINGS).json()
    assert (shown["version"], shown["document"]) == (1, SHORT)
    timeout = next(setting for setting in shown["settings"] if setting["path"] == "cluster.node_timeout")
    assert (timeout["value"], timeout["source"], timeout["applies"]) == (5, "stored", "at next start")
    assert timeout["environment"] == "CRAWLCTL_NODE_TIMEOUT"


def test_a_dry_run_shows_the_changes_and_stores_nothing():
    answer = put(SHORT, "?dry_run=true")

    assert len(answer.json()["changes"]) == 2
    assert answer.json()["version"] == 0
    assert not SettingsVersion.objects.exists()


def test_a_wrong_value_of_a_setting_is_named_with_the_allowed_range():
    problem = assert_problem(put({"worker": {"claimed": 0}}), 400, "invalid", fields=["worker.claimed"])

    assert problem["fields"]["worker.claimed"] == ["This must be a whole number from 1 to 100000."]


def test_a_body_with_a_repeated_field_is_refused():
    response = client_of(ADMINISTRATOR).put(
        SETTINGS, '{"worker": {"claimed": 1}, "worker": {}}', content_type="application/json"
    )

    assert_problem(response, 400, "parse_error")


def test_a_change_based_on_older_settings_is_answered_as_a_conflict():
    store(SHORT)

    assert_problem(put({}, "?based_on=0"), 409, "conflict")


def test_all_versions_of_the_settings_are_kept_and_shown():
    store(SHORT)
    store({})

    listed = client_of(OPERATOR).get(f"{SETTINGS}versions/").json()["results"]
    first = client_of("viewer").get(f"{SETTINGS}versions/1/").json()

    assert [(row["version"], row["made_by"]) for row in listed] == [(2, "vera"), (1, "vera")]
    assert first["document"] == SHORT


def test_storing_settings_needs_the_permission_to_set_up():
    assert_problem(client_of(OPERATOR).put(SETTINGS, SHORT, format="json"), 403, "permission_denied")


def test_a_node_that_runs_with_other_values_is_named():
    apart = Effective(table=TABLE, environment={CLAIMED.path: 7})
    node = make_node("worker-7", settings=apart.report())
    make_node("worker-1", settings=Effective(table=TABLE).report())
    make_node("gone", settings=apart.report(), status=Node.Status.STOPPED, stopped_at=dt.datetime.now(dt.UTC))

    shown = client_of(OPERATOR).get(SETTINGS).json()

    named = {setting["path"]: setting["apart"] for setting in shown["settings"] if setting["apart"]}
    assert named == {"worker.claimed": [str(node.id)]}
    assert {entry["name"]: entry["sources"]["worker.claimed"] for entry in shown["nodes"]} == {
        "worker-1": "default",
        "worker-7": "environment",
    }
