"""Proves that each setting takes its effective value from the right source, and that invalid values are refused."""

import datetime as dt

import pytest

from jobs.settings import archives, authorities, backups, extraction, kept, logins, partitions, table, webmasters
from jobs.settings.table import CLAIMED, NOTIFIES_OUTPUTS, TABLE
from nodes.settings.declaration import (
    InvalidSettings,
    Setting,
    SettingError,
    as_document,
    read_document,
    read_environment,
    read_options,
)
from nodes.settings.effective import Effective, Source
from nodes.settings.node_settings import DATABASE_URL, HEARTBEAT_INTERVAL, NODE_TIMEOUT, ZOOKEEPER_CREDENTIALS
from nodes.tasks import settings as of_tasks
from tests.support.tables import each_row


def seconds(value):
    return dt.timedelta(seconds=value)


def problems_of(document):
    with pytest.raises(InvalidSettings) as refused:
        read_document(TABLE, document)
    return refused.value.problems


# --- The table -----------------------------------------------------------------------------------


def test_no_two_settings_have_one_name():
    assert len({setting.path for setting in TABLE.settings}) == len(TABLE.settings)
    assert len({setting.environment for setting in TABLE.settings}) == len(TABLE.settings)


def test_every_declared_setting_is_in_the_table():
    modules = (table, kept, archives, authorities, logins, backups, of_tasks, partitions, extraction, webmasters)
    values = [value for module in modules for value in vars(module).values()]
    declared = {value.path for value in values if isinstance(value, Setting)}

    assert declared == {setting.path for setting in TABLE.settings}


@each_row("setting", TABLE.settings, ids=lambda setting: setting.path)
def test_a_default_is_a_valid_value_of_its_setting(setting):
    if setting.can_be_stored:
        assert setting.kind.from_json(setting.as_json(setting.default)) == setting.default
    assert setting.meaning.endswith(".")


def test_default_values_do_not_contradict_each_other():
    Effective(table=TABLE).check()


def test_secrets_come_from_the_environment_only():
    for secret in (
        table.SECRET_KEY,
        table.ADMIN_PASSWORD,
        logins.CLIENT_SECRET,
        DATABASE_URL,
        ZOOKEEPER_CREDENTIALS,
    ):
        assert not secret.can_be_stored


# --- Reading -------------------------------------------------------------------------------------


def test_an_unset_or_empty_variable_sets_nothing():
    assert read_environment(TABLE, {"CRAWLCTL_NODE_TIMEOUT": "", "PATH": "/bin"}) == {}


def test_an_invalid_environment_variable_is_named_with_its_valid_values():
    with pytest.raises(SettingError) as refused:
        read_environment(TABLE, {"CRAWLCTL_CLAIMED_PER_WORKER": "many"})

    assert str(refused.value) == ("CRAWLCTL_CLAIMED_PER_WORKER is 'many': it must be a whole number from 1 to 100000")


def test_options_of_a_command_line_are_read():
    assert read_options(TABLE, ["worker.claimed=5", "worker.claimed=7"]) == {CLAIMED.path: 7}


@each_row("option", ["worker.claimd=5", "claimed=5", "worker.claimed", "web.secret_key=x"])
def test_an_unknown_option_is_refused(option):
    with pytest.raises((InvalidSettings, SettingError)):
        read_options(TABLE, [option])


def test_a_stored_document_of_settings_is_read_and_written_unchanged():
    document = {"cluster": {"heartbeat_interval": 0.5, "node_timeout": 3}, "worker": {"tells_outputs": False}}

    values = read_document(TABLE, document)

    assert values == {
        HEARTBEAT_INTERVAL.path: seconds(0.5),
        NODE_TIMEOUT.path: seconds(3),
        NOTIFIES_OUTPUTS.path: False,
    }
    assert as_document(TABLE, values) == document


@each_row("document", [[], "text", None, 3])
def test_a_document_of_settings_must_be_an_object(document):
    assert list(problems_of(document)) == ["settings"]


def test_one_invalid_setting_is_named_and_no_setting_is_applied():
    problems = problems_of(
        {
            "cluster": {"heartbeat_interval": "2", "nodetimeout": 5, "node_timeout": 100_000},
            "worker": [],
            "web": {"secret_key": "x"},
            "crawl": {"connectors": ["a:B"], "keep_history": None},
        }
    )

    assert problems == {
        "cluster.heartbeat_interval": ["This must be a number of seconds from 0.05 to 3600."],
        "cluster.nodetimeout": [
            "Unknown setting. Known settings: "
            + ", ".join(setting.path for setting in TABLE.stored if setting.section == "cluster")
            + "."
        ],
        "cluster.node_timeout": ["This must be a number of seconds from 0.1 to 86400."],
        "worker": ["This must be an object of settings."],
        "web": [
            "Unknown section. Known sections: archive, authority, cluster, crawl, exports, extraction, process, tasks, webmasters, worker."
        ],
        "crawl.connectors": ["This setting can be set only in the environment, as CRAWLCTL_CONNECTORS."],
        "crawl.keep_history": ["This must be a whole number from 0 to 3650."],
    }


def test_a_timeout_below_two_default_heartbeats_is_refused():
    assert problems_of({"cluster": {"heartbeat_interval": 6}}) == {
        "cluster.node_timeout": [
            "The timeout of 10 s is too short: one late heartbeat would fail the node. Set at least two heartbeat intervals, 12 s."
        ]
    }


@each_row(
    ("values", "problem"),
    [
        ({logins.PASSWORD_LOGIN: False}, "web.password_login"),
        ({logins.ISSUER: "https://a.example", logins.CLIENT_ID: "c"}, "oidc.roles"),
        ({logins.ISSUER: "https://a.example", logins.ROLES: ("a=viewer",)}, "oidc.client_id"),
    ],
    ids=str,
)
def test_settings_with_which_no_user_could_log_in_are_refused(values, problem):
    with pytest.raises(InvalidSettings) as refused:
        Effective(table=TABLE, environment={setting.path: value for setting, value in values.items()}).check()

    assert list(refused.value.problems) == [problem]


@each_row("address", ["http://a.example", "https://", "https://a.example/?x", "a.example", "https://a b"])
def test_an_issuer_is_an_https_address(address):
    with pytest.raises(SettingError):
        read_environment(TABLE, {"CRAWLCTL_OIDC_ISSUER": address})


# --- Effective values ----------------------------------------------------------------------------


def test_settings_apply_in_order_of_command_line_environment_store_default():
    values = [{CLAIMED.path: number} for number in (1, 2, 3)]
    places = ("command_line", "environment", "stored")

    found = []
    for first in range(4):
        effective = Effective(table=TABLE, **dict(zip(places[first:], values[first:], strict=True)))
        found.append((effective[CLAIMED], effective.source(CLAIMED)))

    assert found == [
        (1, Source.COMMAND_LINE),
        (2, Source.ENVIRONMENT),
        (3, Source.STORED),
        (8192, Source.DEFAULT),
    ]


def test_contradictions_between_sources_are_refused_with_both_sources():
    effective = Effective(
        table=TABLE,
        environment={NODE_TIMEOUT.path: seconds(3)},
        stored={HEARTBEAT_INTERVAL.path: seconds(2)},
        version=7,
    )

    with pytest.raises(InvalidSettings) as refused:
        effective.check()

    assert str(refused.value) == (
        "cluster.node_timeout: The timeout of 3 s is too short: one late heartbeat would fail the node. "
        "Set at least two heartbeat intervals, 4 s. (cluster.node_timeout comes from the environment (CRAWLCTL_NODE_TIMEOUT), cluster.heartbeat_interval "
        "comes from version 7 of the stored settings.)"
    )


@each_row(
    ("environment", "sentence"),
    [
        (
            {"CRAWLCTL_COORDINATION": "zookeeper"},
            "CRAWLCTL_COORDINATION is ZOOKEEPER, so this must be the address of ZooKeeper",
        ),
        ({"CRAWLCTL_ZOOKEEPER_CREDENTIALS": "crawl"}, "This must be user:password, with a colon between them"),
    ],
)
def test_zookeeper_needs_an_address_and_credentials_in_two_parts(environment, sentence):
    with pytest.raises(InvalidSettings, match=sentence) as refused:
        Effective(table=TABLE, environment=read_environment(TABLE, environment)).check()

    assert "'crawl'" not in str(refused.value)


def test_some_settings_apply_while_running_and_others_wait_for_a_restart():
    running = Effective(table=TABLE)

    taken = running.taking_up({CLAIMED.path: 5, NODE_TIMEOUT.path: seconds(60)}, version=1)

    assert (taken[CLAIMED], taken[NODE_TIMEOUT]) == (5, seconds(10))
    assert taken.waiting == {NODE_TIMEOUT.path: seconds(60)}
    assert taken.report()["waiting"] == {NODE_TIMEOUT.path: 60}


def test_a_heartbeat_too_long_for_the_present_timeout_waits_with_the_timeout():
    running = Effective(table=TABLE)

    taken = running.taking_up({HEARTBEAT_INTERVAL.path: seconds(20), NODE_TIMEOUT.path: seconds(60)}, version=1)

    assert taken[HEARTBEAT_INTERVAL] == seconds(2)
    assert set(taken.waiting) == {HEARTBEAT_INTERVAL.path, NODE_TIMEOUT.path}
    taken.starting_with({HEARTBEAT_INTERVAL.path: seconds(20), NODE_TIMEOUT.path: seconds(60)}, version=1).check()


def test_a_setting_removed_from_the_document_no_longer_waits():
    running = Effective(table=TABLE).taking_up({CLAIMED.path: 5, NODE_TIMEOUT.path: seconds(60)}, version=1)

    taken = running.taking_up({}, version=2)

    assert (taken[CLAIMED], taken.source(CLAIMED), taken.waiting, taken.version) == (8192, Source.DEFAULT, {}, 2)


def test_settings_of_the_environment_apply_immediately():
    running = Effective(table=TABLE, environment={NODE_TIMEOUT.path: seconds(10)})

    taken = running.taking_up({NODE_TIMEOUT.path: seconds(60)}, version=1)

    assert (taken[NODE_TIMEOUT], taken.source(NODE_TIMEOUT), taken.waiting) == (seconds(10), Source.ENVIRONMENT, {})
