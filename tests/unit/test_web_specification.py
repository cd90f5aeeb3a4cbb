"""What a job stores of its web crawl."""

import pytest

from jobs.connectors.repository.web.scope import BadPattern, ScopeKind
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import BadUrl
from jobs.connectors.schema import BadSpecification


def test_what_is_stored_is_read_with_its_types():
    stored = {
        "scope": "domain", "include": ["a"], "exclude": ["b", "c"], "max_depth": 3, "user_agent": "Bot/1",
        "allow_private_networks": True, "robots_wait": 1.5,
    }  # fmt: skip

    assert WebSpecification.read(stored, seeds=["http://a.example/"]) == WebSpecification(
        seeds=("http://a.example/",), scope=ScopeKind.DOMAIN, include=("a",), exclude=("b", "c"), max_depth=3,
        user_agent="Bot/1", allow_private_networks=True, robots_wait=1.5,
    )  # fmt: skip


def test_what_is_left_out_has_its_default():
    assert WebSpecification.read({}, seeds=["http://a.example/"]) == WebSpecification(seeds=("http://a.example/",))


@pytest.mark.parametrize(
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
        ({"robots_wait": -1}, "robots_wait"),
        ({"robots_wait": 1e400}, "robots_wait"),
        ({"robots_wait": float("nan")}, "robots_wait"),
        ({"robots_wait": "60"}, "robots_wait"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(stored, field):
    with pytest.raises(BadSpecification) as refused:
        WebSpecification.read(stored, seeds=[])

    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_seeds_and_patterns_are_read_when_the_scope_is_made():
    with pytest.raises(BadUrl):
        WebSpecification(seeds=("nonsense",)).scope_around_seeds()
    with pytest.raises(BadPattern):
        WebSpecification(seeds=("http://a.example/",), include=("(",)).scope_around_seeds()
