"""Proves that a stored web crawl is read with its types and defaults, and that invalid values are refused by name."""

import pytest
from django.test import override_settings

from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.web.kind import specification_of
from jobs.connectors.repository.web.scope import BadPattern, ScopeKind
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import BadUrl
from jobs.connectors.schema import BadSpecification
from jobs.settings.table import ROBOTS_NAME
from jobs.traps.quarantine import TrapGuard
from tests.support.tables import each_row


def test_stored_values_are_read_with_their_types():
    stored = {
        "scope": "domain", "include": ["a"], "exclude": ["b", "c"], "max_depth": 3, "user_agent": "Bot/1",
        "allow_private_networks": True, "robots_wait": 1.5, "trap_guard": "hold", "drop_parameters": ["SID"],
    }  # fmt: skip

    assert WebSpecification.read(stored, seeds=["http://a.example/"]) == WebSpecification(
        seeds=("http://a.example/",), scope=ScopeKind.DOMAIN, include=("a",), exclude=("b", "c"), max_depth=3,
        user_agent="Bot/1", allow_private_networks=True, robots_wait=1.5, trap_guard=TrapGuard.HOLD,
        drop_parameters=("SID",),
    )  # fmt: skip


def test_a_missing_option_of_a_web_job_has_its_default():
    assert WebSpecification.read({}, seeds=["http://a.example/"]) == WebSpecification(seeds=("http://a.example/",))


@each_row(
    ("configuration", "specification", "name"),
    [
        ({}, {}, "cluster-bot"),
        ({"user_agent": "TheirBot/1"}, {}, "TheirBot"),
        ({"user_agent": "TheirBot/1", "robots_name": "theirs"}, {}, "theirs"),
        ({"robots_name": "theirs"}, {}, "theirs"),
        ({"robots_name": "theirs"}, {"user_agent": "Mozilla/5.0 (compatible; JobBot/2)"}, "JobBot"),
        ({"robots_name": "theirs"}, {"robots_name": "ours"}, "ours"),
        ({"robots_name": ""}, {}, "crawlctl"),
    ],
)
def test_the_name_in_robots_txt_is_that_of_the_user_agent_unless_set(configuration, specification, name):
    with override_settings(CRAWLCTL_ENVIRONMENT={ROBOTS_NAME.path: "cluster-bot"}):
        specified = specification_of(SourceSettings(configuration, specification, ["http://a.example/"]))

    assert specified.robots_name_asked == name


@each_row(
    ("stored", "field"),
    [
        ({"colour": 1}, "colour"),
        ({"scope": "planet"}, "scope"),
        ({"scope": None}, "scope"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_depth": True}, "max_depth"),
        ({"max_depth": 1.5}, "max_depth"),
        ({"include": None}, "include"),
        ({"user_agent": "a\r\nHost: b"}, "user_agent"),
        ({"user_agent": " "}, "user_agent"),
        ({"allow_private_networks": 1}, "allow_private_networks"),
        ({"robots_name": "our bot"}, "robots_name"),
        ({"robots_name": "*"}, "robots_name"),
        ({"drop_parameters": ["a=b"]}, "drop_parameters"),
        ({"drop_parameters": [""]}, "drop_parameters"),
        ({"trap_guard": "maybe"}, "trap_guard"),
        ({"robots_wait": -1}, "robots_wait"),
        ({"robots_wait": 1e400}, "robots_wait"),
        ({"robots_wait": float("nan")}, "robots_wait"),
        ({"robots_wait": "60"}, "robots_wait"),
    ],
)
def test_an_invalid_option_of_a_web_job_is_refused_by_name(stored, field):
    with pytest.raises(BadSpecification) as refused:
        WebSpecification.read(stored, seeds=[])

    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_seeds_and_patterns_are_read_when_the_scope_is_made():
    with pytest.raises(BadUrl):
        WebSpecification(seeds=("nonsense",)).scope_around_seeds()
    with pytest.raises(BadPattern):
        WebSpecification(seeds=("http://a.example/",), include=("(",)).scope_around_seeds()
