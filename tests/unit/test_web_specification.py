"""What a job stores of its web crawl."""

import json

import pytest

from jobs.connectors.repository.web.scope import BadPattern, ScopeKind
from jobs.connectors.repository.web.specification import BadSpecification, WebSpecification
from jobs.connectors.repository.web.urls import BadUrl


def test_a_specification_survives_being_stored():
    specification = WebSpecification(
        seeds=("http://a.example/",), scope=ScopeKind.DOMAIN, include=("a",), exclude=("b", "c"), max_depth=3,
        user_agent="Bot/1", allow_private_networks=True, robots_wait=1.5,
    )  # fmt: skip

    assert WebSpecification.from_json(json.loads(json.dumps(specification.to_json()))) == specification


def test_what_is_left_out_has_its_default():
    assert WebSpecification.from_json({"seeds": ["http://a.example/"]}) == WebSpecification(
        seeds=("http://a.example/",)
    )


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ({}, "seeds"),
        ({"seeds": "http://a.example/"}, "seeds"),
        ({"seeds": [1]}, "seeds"),
        ({"seeds": [], "colour": 1}, "colour"),
        ({"seeds": [], "scope": "planet"}, "scope"),
        ({"seeds": [], "scope": None}, "scope"),
        ({"seeds": [], "max_depth": -1}, "max_depth"),
        ({"seeds": [], "max_depth": True}, "max_depth"),
        ({"seeds": [], "max_depth": 1.5}, "max_depth"),
        ({"seeds": [], "include": None}, "include"),
        ({"seeds": [], "user_agent": "a\r\nHost: b"}, "user_agent"),
        ({"seeds": [], "user_agent": " "}, "user_agent"),
        ({"seeds": [], "allow_private_networks": 1}, "allow_private_networks"),
        ({"seeds": [], "robots_wait": -1}, "robots_wait"),
        ({"seeds": [], "robots_wait": 1e400}, "robots_wait"),
        ({"seeds": [], "robots_wait": float("nan")}, "robots_wait"),
        ({"seeds": [], "robots_wait": "60"}, "robots_wait"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(stored, field):
    with pytest.raises(BadSpecification) as refused:
        WebSpecification.from_json(stored)

    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_seeds_and_patterns_are_read_when_the_scope_is_made():
    with pytest.raises(BadUrl):
        WebSpecification(seeds=("nonsense",)).scope_around_seeds()
    with pytest.raises(BadPattern):
        WebSpecification(seeds=("http://a.example/",), include=("(",)).scope_around_seeds()
