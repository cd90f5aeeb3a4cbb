"""Proves that installed connectors are found by name, and that their configurations are checked by field."""

import pytest

from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import BinKind, SourceSettings
from jobs.connectors.repository.simple import SimpleKind
from jobs.connectors.schema import BadSpecification, Field, FieldKind, Schema
from tests.support.scripted import CONNECTORS
from tests.support.tables import each_row


def test_the_setting_adds_connectors_to_the_built_in_connectors(settings):
    settings.CRAWLCTL_CONNECTORS = CONNECTORS

    assert registry.is_installed("web")
    assert registry.is_installed("scripted-add-change")
    assert registry.find("scripted-all").link_types == ("link", "peer", "child")


@pytest.mark.parametrize(
    "place", ["tests.gone:KIND", "tests.support.scripted:GONE", "tests.support.scripted", "nonsense"]
)
def test_a_connector_that_cannot_be_imported_is_left_out_without_an_error(settings, caplog, place):
    settings.CRAWLCTL_CONNECTORS = (place,)

    assert "web" in registry.installed()
    assert place in caplog.text


def test_an_unknown_connector_is_refused_with_a_list_of_installed_ones():
    with pytest.raises(registry.UnknownConnector, match=r"'pigeon'; there are: web"):
        registry.find("pigeon")


def test_an_address_is_read_by_the_rules_of_each_installed_connector(settings):
    settings.CRAWLCTL_CONNECTORS = CONNECTORS[:1]

    assert registry.identifiers_meant("HTTP://a.example") == ["HTTP://a.example", "http://a.example/"]
    assert registry.identifiers_meant("scripted://here/a") == ["scripted://here/a"]


SCHEMA = Schema(
    (
        Field(name="place", kind=FieldKind.TEXT, label="Place", is_required=True),
        Field(name="most", kind=FieldKind.WHOLE, label="Most", least=1, most=9),
        Field(name="mood", kind=FieldKind.CHOICE, label="Mood", choices=(("good", "Good"), ("bad", "Bad"))),
    )
)


@each_row(
    ("values", "field", "reason"),
    [
        ({}, "place", "missing"),
        ({"place": 1}, "place", "must be a text"),
        ({"place": "x", "most": 10}, "most", "from 1 to 9"),
        ({"place": "x", "most": 1.5}, "most", "whole number"),
        ({"place": "x", "mood": ["good"]}, "mood", "one of good, bad"),
        ({"place": "x", "colour": 1}, "colour", "there are mood, most, place"),
    ],
)
def test_an_invalid_field_is_refused_by_its_name(values, field, reason):
    with pytest.raises(BadSpecification, match=reason) as refused:
        SCHEMA.read(values)

    assert refused.value.field == field


class Careless(SimpleKind):
    """A kind of connector that checks nothing itself."""

    name, label = "careless", "Careless"
    bins = BinKind(namespace="careless", asks_first=False, requests=1, gap=0.0)
    configuration = SCHEMA
    specification = Schema(
        (
            Field(name="upto", kind=FieldKind.WHOLE, label="Up to", least=1),
            Field(name="share", kind=FieldKind.NUMBER, label="Share"),
        )
    )

    def canonical(self, typed):
        return typed

    def bin_of(self, identifier):
        return identifier

    def open(self, source):
        raise NotImplementedError


@each_row(
    ("configuration", "specification", "fields"),
    [
        ({"place": "x"}, {"upto": "many"}, {"upto"}),
        ({"place": "x"}, {"upto": 0}, {"upto"}),
        ({"place": "x"}, {"share": float("nan")}, {"share"}),
        ({"place": "x"}, {"colour": 1, "upto": True}, {"colour", "upto"}),
        ({"colour": 1}, {}, {"colour", "place"}),
    ],
)
def test_fields_are_checked_for_a_connector_that_checks_nothing(configuration, specification, fields):
    checked = registry.check(Careless(), SourceSettings(configuration=configuration, specification=specification))

    assert set(checked.problems) == fields


def test_input_is_read_by_the_types_of_the_fields():
    source = SourceSettings(configuration={"place": "x", "most": 2}, specification={"share": 1})

    assert source.read(Careless()) == {"place": "x", "most": 2, "share": 1.0}
