"""Proves that the description of the API is valid OpenAPI, is made once, and is unambiguous for generated clients."""

import pytest
from django.core.management import call_command
from drf_spectacular.generators import SchemaGenerator
from jsonschema import validate as validate_value
from openapi_spec_validator import validate
from rest_framework.test import APIClient

from crawlctl.access.roles import VIEWER
from crawlctl.web.description import description
from tests.support.api import assert_problem, client_of
from tests.support.tables import each_row

ADDRESS = "/api/v1/schema/"


def test_the_description_is_generated_without_a_warning(tmp_path, capsys):
    # Two components with one name, or a name made from a number, cause a warning, which ends the command.
    call_command("spectacular", format="openapi-json", fail_on_warn=True, file=str(tmp_path / "schema.json"))

    assert capsys.readouterr().err == ""


def test_the_description_is_valid_openapi():
    validate(description())


def test_the_description_lets_a_field_with_a_pattern_be_empty():
    described = description()["components"]["schemas"]["Seed"]

    validate_value("", described["properties"]["tag"])


@pytest.fixture
def viewer(db):
    return client_of(VIEWER)


@each_row(
    ("accept", "query", "media_type", "begins"),
    [
        ("*/*", "", "application/vnd.oai.openapi", b"openapi: 3"),
        ("*/*", "?format=json", "application/json", b"{"),
        ("*/*", "?format=yaml", "application/vnd.oai.openapi", b"openapi: 3"),
        ("application/json", "", "application/json", b"{"),
        ("application/json", "?format=yaml", "application/yaml", b"openapi: 3"),
        ("application/vnd.oai.openapi+json", "?format=json", "application/vnd.oai.openapi+json", b"{"),
    ],
)
def test_the_format_in_the_query_wins_over_the_accept_header(viewer, accept, query, media_type, begins):
    answer = viewer.get(f"{ADDRESS}{query}", HTTP_ACCEPT=accept)

    assert answer["Content-Type"] == media_type
    assert answer.content.startswith(begins)


@each_row("parameter", ["format=xml", "format=", "lang=", "lang=tlh"])
def test_an_unknown_format_or_language_is_refused_at_its_field(viewer, parameter):
    name, _value = parameter.split("=")

    assert_problem(viewer.get(f"{ADDRESS}?{parameter}"), 400, "invalid", fields=[name])


def test_a_refusal_is_json_even_if_the_client_accepts_yaml(db):
    refused = APIClient().get(ADDRESS, HTTP_ACCEPT="application/yaml")

    assert_problem(refused, 401, "not_authenticated")


def test_titles_in_the_description_are_in_the_requested_language(viewer):
    title = "Why the last attempt failed"

    english, german = (viewer.get(f"{ADDRESS}?format=json&lang={lang}") for lang in ("en", "de"))

    assert title in english.content.decode()
    assert title not in german.content.decode()


def test_the_description_is_made_once_and_sent_again_only_if_it_differs(viewer, monkeypatch):
    first = viewer.get(f"{ADDRESS}?format=json")
    monkeypatch.delattr(SchemaGenerator, "get_schema")

    again = viewer.get(f"{ADDRESS}?format=json")
    unchanged = viewer.get(f"{ADDRESS}?format=json", HTTP_IF_NONE_MATCH=first["ETag"])
    changed = viewer.get(f"{ADDRESS}?format=json", HTTP_IF_NONE_MATCH='"of another version"')

    assert again.content == changed.content == first.content
    assert (unchanged.status_code, unchanged.content, unchanged["ETag"]) == (304, b"", first["ETag"])
